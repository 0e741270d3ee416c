"""The files of the hot path, each timed alone: `python -m benchmarks.micro.run`. A file here has its subject's name."""
