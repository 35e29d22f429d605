"""Benchmarks: the product as a user starts it, beside its alternative, in one run. `make bench-NAME` runs one."""
