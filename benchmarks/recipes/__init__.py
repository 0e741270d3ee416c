"""One file per reference model: how to build it."""
