"""Requests into batches and batches back into answers. Knows nothing of threads, sockets or models."""
