"""How triton is served and asked."""
