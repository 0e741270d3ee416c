"""One folder each: how the server is installed, started and asked."""
