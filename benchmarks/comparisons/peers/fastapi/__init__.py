"""How fastapi is served and asked."""
