"""How litserve is served and asked."""
