"""Single steps of the server, without sockets: `python -m benchmarks.micro.request_path`."""
