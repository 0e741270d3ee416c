"""How ray is served and asked."""
