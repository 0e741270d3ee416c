"""Triton's trace extension as plain dicts: inheritance, taking back, and what is refused whole."""

from typing import Any

import pytest

from guepard.core.errors import GuepardError, InputError, NotFound, PermissionDenied, Unsupported
from guepard.telemetry.request_trace import UNBOUNDED, TracePlan
from guepard.telemetry.trace_settings import TraceSettings

DEFAULTS = {
    "trace_file": "",
    "trace_level": ["OFF"],
    "trace_rate": "1000",
    "trace_count": "-1",
    "log_frequency": "0",
    "trace_mode": "triton",
}
MODELS = ("a", "b")


def check_known(model: str) -> None:
    if model not in MODELS:
        raise NotFound(f"unknown model {model!r}")


@pytest.fixture
def settings() -> TraceSettings:
    return TraceSettings(check_known)


def test_they_begin_off(settings: TraceSettings) -> None:
    assert settings.settings(None) == settings.settings("a") == DEFAULTS
    assert settings.trace("a").is_on is False
    assert settings.update(None, {}) == settings.update("a", {}) == DEFAULTS


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        ({"trace_level": ["TIMESTAMPS"]}, {"trace_level": ["TIMESTAMPS"]}),
        ({"trace_level": "TIMESTAMPS"}, {"trace_level": ["TIMESTAMPS"]}),
        ({"trace_level": ["TIMESTAMPS", "TIMESTAMPS"]}, {"trace_level": ["TIMESTAMPS"]}),
        ({"trace_rate": "1"}, {"trace_rate": "1"}),
        ({"trace_rate": 10_000}, {"trace_rate": "10000"}),
        ({"trace_rate": ["7"]}, {"trace_rate": "7"}),
        ({"trace_rate": "4294967295"}, {"trace_rate": "4294967295"}),
        ({"trace_count": "0"}, {"trace_count": "0"}),
        ({"trace_count": ["-1"]}, {"trace_count": "-1"}),
        ({"log_frequency": "50"}, {"log_frequency": "50"}),
        ({"trace_file": ""}, {}),
        ({"trace_mode": ["triton"]}, {}),
    ],
)
def test_values_as_clients_send_them(settings: TraceSettings, sent: dict[str, Any], shown: dict[str, Any]) -> None:
    assert settings.update(None, sent) == DEFAULTS | shown
    assert settings.settings("b") == DEFAULTS | shown


def test_a_model_s_own_settings_win_until_they_are_taken_back(settings: TraceSettings) -> None:
    settings.update(None, {"trace_level": ["TIMESTAMPS"], "trace_rate": "5"})
    settings.update("a", {"trace_rate": "2", "trace_count": "9"})
    assert settings.settings("a").items() >= {"trace_rate": "2", "trace_count": "9"}.items()
    assert settings.settings("b").items() >= {"trace_rate": "5", "trace_count": "-1"}.items()
    settings.update(None, {"trace_rate": "6", "trace_level": None})
    assert settings.settings("a") == DEFAULTS | {"trace_rate": "2", "trace_count": "9"}
    assert settings.update("a", {"trace_rate": None})["trace_rate"] == "6"
    assert settings.update(None, {"trace_rate": None})["trace_rate"] == "1000"
    assert settings.settings("a") == DEFAULTS | {"trace_count": "9"}
    assert settings.update("a", dict.fromkeys(DEFAULTS)) == DEFAULTS


def test_traces_follow_the_settings_whenever_they_were_asked_for(settings: TraceSettings) -> None:
    before = settings.trace("a")
    settings.update("a", {"trace_level": ["TIMESTAMPS"], "trace_rate": "3", "trace_count": "4"})
    settings.update(None, {"trace_level": ["TIMESTAMPS"]})
    assert settings.trace("a") is before
    assert before.plan == TracePlan(is_on=True, rate=3, limit=4)
    assert settings.trace("b").plan == TracePlan(is_on=True, rate=1_000, limit=UNBOUNDED)
    settings.update(None, {"trace_level": ["OFF"]})
    assert (before.is_on, settings.trace("b").is_on) == (True, False)
    settings.update("a", {"trace_level": None})
    assert not before.is_on


def test_a_count_of_none_is_off(settings: TraceSettings) -> None:
    settings.update(None, {"trace_level": ["TIMESTAMPS"], "trace_count": "0"})
    assert not settings.trace("a").is_on


@pytest.mark.parametrize(
    ("changes", "kind", "words"),
    [
        ({"trace_level": ["TENSORS"]}, Unsupported, "trace_level: TENSORS is not served"),
        ({"trace_level": ["TIMESTAMPS", "TENSORS"]}, Unsupported, "trace_level"),
        ({"trace_level": ["OFF", "TIMESTAMPS"]}, InputError, "expected OFF or TIMESTAMPS alone"),
        ({"trace_level": []}, InputError, "trace_level: expected OFF or TIMESTAMPS alone, got []"),
        ({"trace_level": "timestamps"}, InputError, "trace_level: expected a list out of OFF, TIMESTAMPS, TENSORS"),
        ({"trace_level": [["OFF"]]}, InputError, "trace_level"),
        ({"trace_level": {"OFF": 1}}, InputError, "trace_level"),
        ({"trace_level": 1}, InputError, "trace_level"),
        ({"trace_rate": "0"}, InputError, "trace_rate: expected a whole number from 1 to 4294967295, got 0"),
        ({"trace_rate": "-1"}, InputError, "trace_rate"),
        ({"trace_rate": "1.5"}, InputError, "got '1.5'"),
        ({"trace_rate": 2.0}, InputError, "got 2.0"),
        ({"trace_rate": True}, InputError, "got True"),
        ({"trace_rate": "١"}, InputError, "trace_rate"),
        ({"trace_rate": " 1"}, InputError, "trace_rate"),
        ({"trace_rate": "9" * 10_000}, InputError, "trace_rate"),
        ({"trace_rate": 2**64}, InputError, "trace_rate"),
        ({"trace_rate": ["1", "2"]}, InputError, "trace_rate"),
        ({"trace_rate": [["1"]]}, InputError, "trace_rate"),
        ({"trace_rate": []}, InputError, "trace_rate"),
        ({"trace_count": "-2"}, InputError, "trace_count: expected a whole number from -1"),
        ({"log_frequency": "x"}, InputError, "log_frequency"),
        ({"trace_file": "/tmp/trace.json"}, PermissionDenied, "trace_file: no route sets a path"),
        ({"trace_file": 3}, InputError, "trace_file: expected a string"),
        ({"trace_mode": "opentelemetry"}, Unsupported, "trace_mode: opentelemetry is not served yet"),
        ({"trace_mode": "zipkin"}, InputError, "trace_mode: expected triton, got 'zipkin'"),
        ({"trace_levels": ["OFF"]}, InputError, "trace_levels: no such trace setting; there are trace_file"),
        ({"y" * 100_000: "1"}, InputError, "no such trace setting"),
    ],
)
@pytest.mark.parametrize("model", [None, "a"])
def test_of_a_refused_change_nothing_takes_effect(
    settings: TraceSettings, model: str | None, changes: dict[str, Any], kind: type[GuepardError], words: str
) -> None:
    before = settings.settings("a")
    with pytest.raises(kind) as caught:
        settings.update(model, {"log_frequency": "3", **changes})
    assert words in caught.value.message
    assert len(caught.value.message) < 300
    assert settings.settings("a") == settings.settings(None) == before


def test_a_model_that_nobody_knows(settings: TraceSettings) -> None:
    with pytest.raises(NotFound):
        settings.settings("c")
    with pytest.raises(NotFound):
        settings.update("c", {"trace_level": ["TIMESTAMPS"]})
