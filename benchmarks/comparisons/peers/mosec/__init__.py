"""How mosec is served and asked."""
