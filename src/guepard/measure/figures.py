"""Figures as sentences hold them: three significant digits, with their unit."""


def digits(value: float) -> str:
    """Three significant digits, whole above 100, with thousands set apart: 0.0123, 4.56, 1,234."""
    if abs(value) >= 99.95:
        return f"{value:,.0f}"
    text = f"{value:.3g}"
    return text if "e" not in text else f"{value:.6f}".rstrip("0").rstrip(".")


def rate_text(per_second: float) -> str:
    return f"{digits(per_second)}/s"


def ms_text(milliseconds: float) -> str:
    """Milliseconds; microseconds below one, seconds from 10,000 on."""
    if abs(milliseconds) >= 10_000:
        return f"{digits(milliseconds / 1_000)} s"
    return f"{digits(milliseconds * 1_000)} us" if 0 < abs(milliseconds) < 1 else f"{digits(milliseconds)} ms"


def share_text(share: float) -> str:
    return f"{digits(share * 100)} %"


def change_text(share: float) -> str:
    """+3 %, -2.5 %."""
    return f"{'+' if share > 0 else ''}{share_text(share)}"


def percentile_text(percent: float) -> str:
    """p99, p99.9, p99.99999: never p100 for what is less."""
    return f"p{percent:.10g}"
