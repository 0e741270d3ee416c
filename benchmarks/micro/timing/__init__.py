"""How cases are timed, kept and compared."""
