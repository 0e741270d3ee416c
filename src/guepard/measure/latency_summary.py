"""A histogram in the words of the result file, and back."""

from collections.abc import Sequence

from guepard.measure.hdr_format import decode, encode
from guepard.measure.histogram import Histogram
from guepard.measure.intervals import quantile_interval
from guepard.measure.results import Latency, Percentile

PERCENTS = (50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99)
_NS_PER_MS = 1_000_000


def summarise(total: Histogram, blocks: Sequence[Histogram], percents: Sequence[float] = PERCENTS) -> Latency:
    """Percentiles of `total`; `blocks`, the same samples by time, serve for nothing but their intervals.

    Percents lie above 0 and below 100. The effective count is the smallest of those of the percentiles. An empty
    histogram has no percentiles, and zeros.
    """
    if not total.count:
        return Latency(
            count=0, effective_count=0, mean_ms=0.0, min_ms=0.0, max_ms=0.0, percentiles=(), histogram=encode(total)
        )
    found = [(percent, quantile_interval(total, blocks, percent / 100)) for percent in percents]
    return Latency(
        count=total.count,
        effective_count=min((interval.effective_count for _, interval in found), default=total.count),
        mean_ms=total.mean / _NS_PER_MS,
        min_ms=total.min_value / _NS_PER_MS,
        max_ms=total.max_value / _NS_PER_MS,
        percentiles=tuple(
            Percentile(
                percent=percent,
                value_ms=interval.value / _NS_PER_MS,
                low_ms=None if interval.low is None else interval.low / _NS_PER_MS,
                high_ms=None if interval.high is None else interval.high / _NS_PER_MS,
                is_supported=interval.is_supported,
                needed=interval.needed,
            )
            for percent, interval in found
        ),
        histogram=encode(total),
    )


def histogram_of(latency: Latency) -> Histogram:
    """The histogram that was summed up, with its own smallest and largest value; the sum is from the mean.

    Raises: ValueError if the text is not a histogram, or belongs to other figures than those beside it.
    """
    if not latency.count:
        return decode(latency.histogram)
    histogram = decode(
        latency.histogram,
        min_value=round(latency.min_ms * _NS_PER_MS),
        max_value=round(latency.max_ms * _NS_PER_MS),
        total=round(latency.mean_ms * _NS_PER_MS * latency.count),
    )
    if histogram.count != latency.count:
        raise ValueError(f"histogram: it holds {histogram.count} values, but {latency.count} are said to be in it")
    return histogram
