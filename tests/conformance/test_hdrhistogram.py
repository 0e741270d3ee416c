"""HdrHistogram's own Python library reads what we write, and we read what it writes."""

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram

from guepard.measure.hdr_format import decode, encode
from guepard.measure.histogram import Histogram, bucket_index, lower_edge, upper_edge

HOUR_NS = 3_600 * 10**9
PERCENTILES = (50.0, 90.0, 99.0, 99.9)

RANDOM = np.random.default_rng(7)
SAMPLES = {
    "one": [123_456_789],
    "small": list(range(3_000)),
    "latencies": RANDOM.lognormal(15, 1.5, 2_000).astype(np.int64).tolist(),
    "far apart": [0, 1, 2_047, 2_048, 2**40 + 1, HOUR_NS - 1],
}


@pytest.mark.parametrize("name", SAMPLES)
def test_it_reads_ours(name: str) -> None:
    values = SAMPLES[name]
    ours = Histogram.of(np.array(values, np.int64))
    theirs = HdrHistogram.decode(encode(ours))
    assert theirs.get_total_count() == ours.count
    counts = dict(zip(*(part.tolist() for part in ours.sparse()), strict=True))
    for value, index in zip(values, bucket_index(np.array(values)).tolist(), strict=True):
        assert theirs.get_count_at_value(value) == counts[index]
    assert theirs.get_min_value() == lower_edge(min(counts))
    assert theirs.get_max_value() == upper_edge(max(counts))
    for percentile in PERCENTILES:
        its_rank = max(int(percentile / 100 * ours.count + 0.5), 1)  # it rounds where we take the next rank above
        assert theirs.get_value_at_percentile(percentile) == pytest.approx(ours.value_at_rank(its_rank), rel=0.001)


@pytest.mark.parametrize("name", SAMPLES)
def test_we_read_its_own(name: str) -> None:
    values = SAMPLES[name]
    theirs = HdrHistogram(1, HOUR_NS, 3)
    for value in values:
        assert theirs.record_value(value)
    exact = Histogram.of(np.array(values, np.int64))
    ours = decode(
        theirs.encode().decode("ascii"), min_value=exact.min_value, max_value=exact.max_value, total=exact.total
    )
    assert ours == exact


def test_it_reads_an_empty_one_and_we_read_its_own() -> None:
    assert HdrHistogram.decode(encode(Histogram())).get_total_count() == 0
    assert decode(HdrHistogram(1, HOUR_NS, 3).encode().decode("ascii")) == Histogram()


def test_it_reads_values_beyond_a_day() -> None:
    values = np.array([2**62, 2**63 - 1])
    theirs = HdrHistogram.decode(encode(Histogram.of(values)))
    assert theirs.get_total_count() == 2
    assert theirs.get_count_at_value(2**62) == 1


def test_its_other_resolutions_are_refused() -> None:
    theirs = HdrHistogram(1, HOUR_NS, 2)
    theirs.record_value(5)
    with pytest.raises(ValueError, match="2 significant digits"):
        decode(theirs.encode().decode("ascii"))
