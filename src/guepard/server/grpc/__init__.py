"""gRPC: bytes in, bytes out behind one small listener."""
