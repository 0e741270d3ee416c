"""How Guepard is served and asked."""
