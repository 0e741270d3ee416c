"""What to install for a part that is not there. See `core/extras.py`."""

from guepard.core.extras import broken_extra, missing_extra

__all__ = ["broken_extra", "missing_extra"]
