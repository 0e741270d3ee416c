"""Figures as people read them."""


def percent(share: float) -> str:
    """0.072 → `7.2 %`, 1.04 → `104 %`."""
    return f"{100 * share:.{_digits(share)}f} %"


def signed_percent(share: float) -> str:
    """0.03 → `+3.0 %`."""
    return f"{100 * share:+.{_digits(share)}f} %"


def _digits(share: float) -> int:
    return 1 if abs(share) < 0.0995 else 0
