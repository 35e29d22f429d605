"""Hits beside the web server's own cost and other ways to them: `make bench-hits`."""
