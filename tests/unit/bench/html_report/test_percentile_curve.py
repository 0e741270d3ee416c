"""The percentile curve and its band say what the table says."""

import numpy as np
import pytest

from guepard.bench.html_report.distribution_charts import Curve
from guepard.measure.histogram import Histogram
from tests.services import result_documents


def a_curve(count: int = 20_000) -> Curve:
    ms = np.random.default_rng(4).lognormal(np.log(12), 0.3, count)
    curve = Curve.of(result_documents.latency_of(ms, 0.7), "latency", "s1")
    assert curve is not None
    return curve


def test_the_band_goes_through_the_intervals_of_the_percentiles() -> None:
    curve = a_curve()
    supported = [each for each in curve.percentiles if each.is_supported]
    assert len(supported) == 6
    band = curve.band([each.percent / 100 for each in supported])
    for (_, low, high), each in zip(band, supported, strict=True):
        assert low == pytest.approx(each.low_ms, rel=0.003)
        assert high == pytest.approx(each.high_ms, rel=0.003)


def test_between_them_it_holds_the_curve_and_ends_where_samples_do() -> None:
    curve = a_curve()
    shares = [*np.linspace(0.001, 0.998, 500).tolist(), 0.999, 0.9999]
    band = curve.band(shares)
    assert all(low <= curve.ms(share) <= high for share, low, high in band)
    assert band[-1][0] == 0.999 <= curve.supported < 0.9999


def test_what_is_supported_agrees_with_the_percentiles_that_were_judged() -> None:
    curve = a_curve(900)
    told = {each.percent: each.percent / 100 <= curve.supported for each in curve.percentiles}
    assert told == {each.percent: each.is_supported for each in curve.percentiles}
    assert curve.supported < 0.99


def test_without_percentiles_there_is_no_band_and_without_samples_no_curve() -> None:
    assert Curve("A", "s1", Histogram.of(np.array([5, 6, 7])), 3).band([0.5]) == []
    assert Curve.of(result_documents.latency_of(np.zeros(0)), "none", "s1") is None
