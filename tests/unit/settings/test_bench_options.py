"""What the command line of `guepard bench` means, and which combinations are refused."""

from pathlib import Path
from typing import Any

import pytest

from guepard.core.errors import ConfigurationError
from guepard.settings.bench_options import BenchOptions
from guepard.settings.bench_reading import BENCH_BY_KEY, BENCH_SWITCHES, read_bench_options
from guepard.settings.bench_rules import is_url
from guepard.settings.bench_words import Goal, Order, Pattern, Rate, Share
from guepard.settings.units import Duration

URL = "http://localhost:8000"
_BY_FLAG = {switch.flag: switch for switch in BENCH_SWITCHES}


def options_of(target: str | None = URL, **flags: Any) -> BenchOptions:
    """`flags` by name, as the command line has them: texts, lists of texts, True."""
    keys = {switch.option.name: switch.key for switch in BENCH_SWITCHES}
    return read_bench_options(target, {keys[name]: value for name, value in flags.items()})


def test_names_are_distinct_over_all_sections() -> None:
    assert len({switch.option.name for switch in BENCH_SWITCHES}) == len(BENCH_SWITCHES) == len(_BY_FLAG)
    assert set(BENCH_BY_KEY) == {switch.key for switch in BENCH_SWITCHES}


def test_what_nobody_says_has_a_default() -> None:
    options = options_of()
    assert options.target == URL
    assert options.load.rate is None
    assert options.load.concurrency is None
    assert options.load.arrivals == Pattern("poisson")
    assert options.load.self_test is True
    assert options.question.max_errors == 0.01
    assert options.request.timeout == Duration.read("30s")
    assert options.duration == Duration.read("10s")


@pytest.mark.parametrize(
    ("flags", "duration"),
    [
        ({"find_max": "p99=50ms"}, "30s"),
        ({"compare": "http://b"}, "5s"),
        ({"scenario": "offline"}, "600s"),
        ({"scenario": "server", "find_max": "p99=50ms"}, "600s"),
        ({"scenario": "offline", "duration": "20s"}, "20s"),
    ],
)
def test_the_duration_follows_the_question(flags: dict[str, Any], duration: str) -> None:
    assert options_of(**flags).duration == Duration.read(duration)


def test_a_gate_has_a_limit_and_a_comparison_only_if_it_was_said() -> None:
    assert options_of(gate="base.json").gate_limit == 0.1
    assert options_of(gate="base.json", gate_limit="25%").gate_limit == 0.25
    assert options_of(compare="b:1").gate_limit is None
    assert options_of(compare="b:1", gate_limit="5%").gate_limit == 0.05


def test_every_kind_of_value() -> None:
    options = options_of(
        rate="1000/s",
        arrivals="bursts:20",
        inputs="zipf:1.3",
        warmup="2s",
        processes="2",
        slo="p99.9<=1.5s",
        max_errors="0.5%",
        header=["Accept: text/plain, */*", "X-Key: 1"],
        shape=["x:3,224,224"],
        batch="8",
        self_test=False,
    )
    assert options.load.rate == Rate(1_000)
    assert options.load.arrivals == Pattern("bursts", burst_size=20)
    assert options.load.inputs == Order("zipf", 1.3)
    assert options.load.warmup == Duration.read("2s")
    assert options.load.processes == 2
    assert options.question.slo == Goal(99.9, Duration.read("1.5s"))
    assert options.question.max_errors == pytest.approx(0.005)
    assert options.request.header == ("Accept: text/plain, */*", "X-Key: 1")
    assert options.request.shape == ("x:3,224,224",)
    assert options.load.self_test is False


@pytest.mark.parametrize(
    ("text", "value"),
    [("1000", 1_000), ("0.5/s", 0.5), ("90/min", 1.5), ("3600 /h", 1), ("250/s", 250)],
)
def test_rates(text: str, value: float) -> None:
    assert Rate.read(text) == value
    assert Rate.read(str(Rate.read(text))) == value


@pytest.mark.parametrize("text", ["constant", "poisson", "bursts:20", "ramp:50/s", "trace:times.txt"])
def test_a_pattern_is_given_back_as_it_was_written(text: str) -> None:
    assert str(Pattern.read(text)) == text


@pytest.mark.parametrize("text", ["cycle", "unique", "zipf:1.1"])
def test_an_order_is_given_back_as_it_was_written(text: str) -> None:
    assert str(Order.read(text)) == text


def test_goals_and_shares_are_given_back_as_they_were_written() -> None:
    assert str(Goal.read("p99=50ms")) == "p99=50ms"
    assert str(Goal.read("p99.9 < 1s")) == "p99.9=1s"
    assert str(Share.read("12.5 %")) == "12.5%"


@pytest.mark.parametrize(
    ("flags", "fragment"),
    [
        ({"rate": "fast"}, "--rate: expected a rate such as 1000 or 1000/s, got 'fast'"),
        ({"rate": "0"}, "--rate: expected a rate above 0"),
        ({"rate": "-5"}, "--rate: expected a rate"),
        ({"rate": "10/d"}, "--rate: expected a rate"),
        ({"concurrency": "0"}, "--concurrency: expected an integer of 1 or more"),
        ({"slo": "50ms"}, "--slo: expected a goal such as p99=50ms, got '50ms'"),
        ({"slo": "p99=50"}, "--slo: 50 has no unit; write 50s or 50ms"),
        ({"slo": "p100=50ms"}, "below p100"),
        ({"slo": "p99=0ms"}, "a limit above 0"),
        ({"max_errors": "1"}, "--max-errors: expected a share such as 1%"),
        ({"max_errors": "200%"}, "--max-errors 200%: expected at most 100%"),
        ({"arrivals": "random"}, "--arrivals: expected constant, poisson, bursts:N"),
        ({"arrivals": "bursts:1", "rate": "5"}, "a burst has 2 requests or more"),
        ({"inputs": "zipf:0"}, "--inputs: expected cycle, unique or zipf:EXPONENT"),
        ({"duration": "0"}, "--duration: expected a duration above 0"),
        ({"warmup": "soon"}, "--warmup: expected auto or a duration"),
        ({"processes": "0"}, "--processes: expected"),
        ({"protocol": "ftp"}, "--protocol: expected one of auto, oip-json"),
        ({"scenario": "edge"}, "--scenario: expected one of single-stream"),
        ({"blocks": "4", "compare": "http://b"}, "--blocks: expected an integer from 5 to 1000"),
        ({"expect": "("}, "--expect (: no regular expression"),
    ],
)
def test_a_wrong_value_is_named_with_what_to_write(flags: dict[str, Any], fragment: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        options_of(**flags)
    assert fragment in str(caught.value)


@pytest.mark.parametrize(
    ("target", "flags", "fragment"),
    [
        (None, {}, "name what to measure: a URL, a MODEL, --curl or --openapi"),
        (URL, {"rate": "5", "concurrency": "5"}, "--rate and --concurrency: "),
        (URL, {"rate": "5", "find_max": "p99=1s"}, "--rate and --find-max: "),
        (URL, {"concurrency": "5", "find_max": "p99=1s"}, "--concurrency and --find-max: "),
        (URL, {"slo": "p9=1s", "find_max": "p99=1s"}, "--slo and --find-max: "),
        (URL, {"compare": "b:1", "find_max": "p99=1s"}, "--compare and --find-max: "),
        (URL, {"compare": "b:1", "scenario": "offline"}, "--compare and --scenario: "),
        (URL, {"arrivals": "constant", "concurrency": "2"}, "--arrivals and --concurrency: "),
        (URL, {"arrivals": "trace:t", "rate": "2"}, "--arrivals trace and --rate: "),
        (URL, {"arrivals": "ramp:5"}, "--arrivals ramp:5/s without --rate: "),
        (URL, {"arrivals": "ramp:5", "find_max": "p99=1s"}, "--arrivals ramp:5/s without --rate"),
        (URL, {"arrivals": "trace:t", "find_max": "p99=1s"}, "--find-max and --arrivals trace:t: "),
        (URL, {"arrivals": "trace:t", "compare": "b:1"}, "--compare and --arrivals trace:t: "),
        (URL, {"curl": "curl x"}, "http://localhost:8000 and --curl: "),
        (None, {"curl": "curl x", "method": "PUT"}, "--curl and --method: "),
        (None, {"curl": "curl x", "openapi": "x"}, "--curl and --openapi: "),
        (None, {"curl": "curl x", "batch": "4"}, "--curl or --openapi and --batch: "),
        (URL, {"operation": "GET /"}, "--operation without --openapi: "),
        (URL, {"data": "x", "body": "y"}, "--data and --body: "),
        (URL, {"data": "x", "shape": ["x:3"]}, "--data and --shape: "),
        (URL, {"insecure": True}, "http://localhost:8000 and --insecure: "),
        ("https://h", {"insecure": True, "ca_file": "x"}, "--insecure and --ca-file: "),
        (URL, {"protocol": "in-process"}, "http://localhost:8000 and --protocol in-process: "),
        (URL, {"trust": True}, "http://localhost:8000 and --trust: "),
        ("m.onnx", {"protocol": "in-process", "compare": "b:1"}, "--compare b:1 and --protocol in-process: "),
        ("m.onnx", {"protocol": "in-process", "header": ["a: b"]}, "--protocol in-process and --header: "),
        (None, {"protocol": "in-process", "curl": "curl x"}, "--protocol in-process and --curl: "),
        ("m.onnx", {"openapi": "api.json"}, "m.onnx and --openapi: "),
        ("example.com", {"insecure": True}, "if example.com is a host, write http://example.com"),
        (URL, {"protocol": "http", "shape": ["x:3"]}, "--protocol http and --shape: "),
        (URL, {"blocks": "5"}, "--blocks without --compare: "),
        (URL, {"gate_limit": "5%"}, "--gate-limit without --gate or --compare: "),
        (URL, {"junit": "x.xml"}, "--junit without --gate or --compare: "),
        (URL, {"junit": "x.xml", "compare": "b:1"}, "--junit without --gate-limit: "),
        (URL, {"gate": "x.json", "out": "./x.json"}, "--gate and --out: both name ./x.json"),
        (URL, {"out": ""}, "--out: expected a file"),
        (URL, {"warmup": "10s"}, "--warmup 10s and --duration 10s: "),
        (URL, {"concurrency": "9", "connections": "8"}, "--concurrency 9 and --connections 8: "),
        (URL, {"concurrency": "1", "processes": "2"}, "--processes 2 and --concurrency 1: "),
        (URL, {"scenario": "server"}, "--scenario server: say its bound"),
        (URL, {"scenario": "server", "slo": "p99=1s"}, "--scenario server with --slo: write --rate"),
        (URL, {"scenario": "server", "slo": "p99=1s", "concurrency": "4"}, "--scenario server and --concurrency: "),
        (URL, {"scenario": "offline", "rate": "4"}, "--scenario offline and --rate: "),
        (URL, {"scenario": "single-stream", "concurrency": "4"}, "--scenario single-stream and --concurrency: "),
        (URL, {"scenario": "multi-stream", "batch": "4"}, "--scenario multi-stream and --batch: "),
    ],
)
def test_a_contradiction_names_both_sides(target: str | None, flags: dict[str, Any], fragment: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        options_of(target, **flags)
    assert fragment in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("target", "flags"),
    [
        (URL, {"rate": "100", "requests": "1000", "duration": "1m"}),
        ("grpc://localhost:8001", {"concurrency": "8", "connections": "8", "batch": "4"}),
        ("model.onnx", {"concurrency": "1", "shape": ["x:3,224"]}),
        ("model.onnx", {"protocol": "oip-grpc", "header": ["a: b"], "compare": "other.onnx"}),
        ("model.onnx", {"protocol": "in-process", "compare": "other.onnx", "trust": True}),
        ("localhost:8000", {"header": ["a: b"], "compare": "localhost:9000"}),
        (None, {"curl": "curl localhost", "header": ["a: b"], "rate": "5"}),
        (None, {"openapi": "api.json", "operation": "POST /score"}),
        (URL, {"scenario": "server", "slo": "p99=1s", "rate": "10"}),
        (URL, {"scenario": "server", "find_max": "p99=1s"}),
        (URL, {"scenario": "offline", "concurrency": "64"}),
        (URL, {"gate": "base.json", "gate_limit": "5%", "junit": "gate.xml", "rate": "10"}),
        (URL, {"compare": "b:1", "gate_limit": "5%", "junit": "gate.xml"}),
        (URL, {"arrivals": "trace:times.txt"}),
        ("https://h", {"insecure": True}),
        ("https://h", {"ca_file": "ca.pem"}),
    ],
)
def test_what_belongs_together_is_taken(target: str | None, flags: dict[str, Any]) -> None:
    assert options_of(target, **flags).target == target


def test_what_is_a_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for text in ("http://h", "grpcs://h:1", "localhost", "localhost/v2", "h:80", "10.0.0.1:8000/v2", "[::1]:8000"):
        assert is_url(text)
    for text in ("model.onnx", "./models", "scorer.py:Scorer", "name=model.onnx", "models/resnet"):
        assert not is_url(text)
    (tmp_path / "localhost").touch()
    assert not is_url("localhost")
