"""Loading score files beside `redis-cli --pipe`: `make bench-load`."""
