"""Front ends: bytes from sockets to the engine and back."""
