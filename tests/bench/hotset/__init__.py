"""The choice of entities beside other ways to use the same memory: `make bench-hotset`."""
