"""Tools for tests. Nothing else in the package imports them."""
