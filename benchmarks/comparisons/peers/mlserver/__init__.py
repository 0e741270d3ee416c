"""How mlserver is served and asked."""
