"""What to install for a part that is not there. See `core/extras.py`."""

from guepard.core.extras import missing_extra

__all__ = ["missing_extra"]
