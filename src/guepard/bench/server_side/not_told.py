"""The one error of asking a server about itself."""


class NotTold(Exception):
    """The server does not say, or says what cannot be used. `str(error)` is why, in words for a report."""
