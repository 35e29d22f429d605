"""Servers of others, each a script of its own environment: no import of ours but what needs no package."""
