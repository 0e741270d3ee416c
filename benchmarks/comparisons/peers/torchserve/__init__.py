"""How torchserve is served and asked."""
