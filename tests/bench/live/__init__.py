"""The live tier at the limit of its device: `make bench-live`."""
