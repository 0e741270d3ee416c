"""How bentoml is served and asked."""
