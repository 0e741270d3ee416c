"""The same models and payloads on Guepard and on servers that pip installs: `python -m benchmarks.comparisons.run`."""
