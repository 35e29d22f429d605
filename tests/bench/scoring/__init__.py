"""Scoring through Spark beside a bare torch loop: `make bench-score`."""
