"""Benchmarks of a whole server, loaded over loopback from another process."""
