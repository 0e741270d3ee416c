"""Wire formats: bytes to core values and back. Nothing here opens a socket or knows which models exist."""
