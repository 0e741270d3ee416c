"""One request, four ways in: JSON and binary over HTTP, raw and typed contents over gRPC. The outcome is the same.

The same values come back, or the same error: its code (`code` in a body is `guepard-code` beside a status), the status
that goes with it, the hint to come again, and its words. Where words or outcomes must differ, the row says why.
"""

import json
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import numpy as np
import pytest
from tritonclient.grpc import service_pb2

from guepard.testing.running_server import RunningServer
from tests.conftest import Serve
from tests.services import onnx_models
from tests.services.four_ways import (
    AS_BYTES,
    AS_NUMBERS,
    FORMS,
    JSON_FORM,
    RAW,
    TYPED,
    Ask,
    Given,
    Outcome,
    send,
    to_bytes,
)
from tests.services.grpc_calls import add_input, call
from tests.services.identities import onnx_identities
from tests.services.python_models import MIXED_BYTES
from tests.services.raw_http import gauge
from tests.services.waiting import wait_until

PYTHON_MODELS = Path(__file__).parent.parent / "services" / "python_models.py"

ONNX = {
    "add": onnx_models.add(dims=("n", 2)),
    "row16": onnx_models.identity("INT32", ["n", 16]),
    "two": onnx_models.two_outputs(2),
    "matrix": onnx_models.identity("FP32", ["n", "m", "k"]),
    "divide": onnx_models.divide(1),
    "gone": onnx_models.double(1),
}
PYTHON = {
    "echo": "EchoParameters",
    "fail": "FailNegative",
    "refuse": "RefuseNegative",
    "raises": "RaisesAnything",
    "broken": "FailsToLoad",
    "stream": "Stream",
    "mixed_bytes": "MixedBytes",
    "non_finite": "NonFinite",
    "booleans": "Booleans",
    "echo_bytes": "EchoBytes",
    "narrow": "Sleep, max_batch_size: 1, dynamic_batching: {max_queue_size: 1}",
    "impatient": "Sleep, max_batch_size: 1, instance_group: {count: 16}, timeout: {default: 120ms, max: 150ms}",
}


@pytest.fixture(scope="module")
def server(serve: Serve, models: Path) -> RunningServer:
    entries = []
    for argument in onnx_identities(models):
        name, _, path = argument.partition("=")
        entries.append(f"  - {{name: {name}, path: {path}}}")
    for name, model in ONNX.items():
        onnx_models.write_model(models / f"{name}.onnx", model)
        entries.append(f"  - {{name: {name}, path: {name}.onnx}}")
    for name, given in PYTHON.items():
        entry, _, options = given.partition(",")
        entries.append(
            f"  - {{name: {name}, path: '{PYTHON_MODELS}:{entry}', backend: python, trust: true, {options}}}"
        )
    (models / "guepard.yaml").write_text("\n".join(["models:", *entries]))
    server = serve("--config", models / "guepard.yaml")
    assert server.request("POST", "/v2/repository/models/gone/unload", b"").status == 200
    return server


@pytest.fixture(scope="module")
def channel(server: RunningServer) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(server.grpc_address) as channel:
        yield channel


class Expected(NamedTuple):
    """`code` "ok" or that of the error, whose words hold `fragments` and, unless `differs`, are the same on all forms.

    `differs` says why they are not; `forms` are those that can carry the request at all.
    """

    code: str
    fragments: Sequence[str] = ()
    forms: Sequence[str] = FORMS
    differs: str = ""


# The table

HUGE = 2**63 - 1


def one(datatype: str, *values: Any, **rest: Any) -> Ask:
    """One row of `values` to the identity of `datatype`."""
    return Ask(f"ident_{datatype.lower()}", [Given(datatype, [1, len(values)], values)], **rest)


def shaped(shape: Sequence[int], values: Sequence[Any] = (), **rest: Any) -> Ask:
    return Ask("ident_fp32", [Given("FP32", shape, values, **rest)])


def named(model: str, *names: str) -> Ask:
    return Ask(model, [Given("FP32", [1, 2], [1, 2], name) for name in names])


def scalar(model: str, value: float, datatype: str = "FP32", **rest: Any) -> Ask:
    return Ask(model, [Given(datatype, [1, 1], [value])], **rest)


def refused(*fragments: str, **rest: Any) -> Expected:
    return Expected("invalid_argument", fragments, **rest)


OK = Expected("ok")
PER_FORM = "the values are named by the field that the form has for them"
CUT = "clients take 8 KiB of metadata, so long words are cut there"
OWN_FIELDS = "a JSON parser and protobuf speak of their own fields"

LIMITS: dict[str, Sequence[Any]] = {
    "BOOL": [True, False],
    "UINT8": [0, 255],
    "UINT16": [0, 65_535],
    "UINT32": [0, 2**32 - 1],
    "UINT64": [0, 2**53 + 1, 2**64 - 1],
    "INT8": [-128, 127],
    "INT16": [-32_768, 32_767],
    "INT32": [-(2**31), 2**31 - 1],
    "INT64": [-(2**63), 2**53 + 1, 2**63 - 1],
    "FP16": [65_504.0, -65_504.0, 2.0**-24, -0.0],
    "FP32": [3.4028234663852886e38, -1.401298464324817e-45, 16_777_216.0, -0.0],
    "FP64": [1.7976931348623157e308, 5e-324, 0.1, -0.0],
    "BF16": [3.3895313892515355e38, -1.5, -0.0],
    "BYTES": ["hello", "", 'a,b\n"q"', "😀", "\x00"],
}
TOO_LARGE: dict[str, Sequence[Any]] = {
    "UINT8": [256, 2**32 - 1],
    "UINT16": [65_536],
    "INT8": [-129, 128],
    "INT16": [-32_769, 32_768, 2**31 - 1],
    "FP16": [70_000.0, -65_520.0, 3e38],
    "BF16": [3.4e38, -3.4e38],
}
BEYOND_PROTOBUF: dict[str, Sequence[Any]] = {
    "UINT8": [-1],
    "UINT32": [2**32],
    "INT32": [2**31, -(2**31) - 1],
    "UINT64": [-1, 2**64],
    "INT64": [2**63],
}

DEADLINES: dict[str, dict[str, Any]] = {
    "by default": {},
    "in a parameter": {"parameters": {"timeout": 20_000}},
    "in a parameter as text": {"parameters": {"timeout": "20000"}},
    "in a header": {"headers": {"Guepard-Timeout-Ms": "20"}},
    "in both, the header longer": {"headers": {"Guepard-Timeout-Ms": "2000"}, "parameters": {"timeout": 20_000}},
    "in both, the header shorter": {"headers": {"Guepard-Timeout-Ms": "20"}, "parameters": {"timeout": 2_000_000}},
    "above the maximum": {"headers": {"Guepard-Timeout-Ms": "60000"}},
}

ROWS: dict[str, tuple[Ask, Expected]] = {
    # Shapes and counts
    **{f"shape {shape}": (shaped(shape, [1.5, -2.0][: math.prod(shape)]), OK) for shape in ([1, 2], [2, 1], [1, 1])},
    **{f"empty {shape}": (shaped(shape), OK) for shape in ([2, 0], [0, 2], [0, 0])},
    "empty, three dimensions": (Ask("matrix", [Given("FP32", [2, 0, 3])]), OK),
    "empty strings of no rows": (Ask("ident_bytes", [Given("BYTES", [0, 3])]), OK),
    **{
        f"{count} for 16": (
            Ask("row16", [Given("INT32", [1, 16], list(range(count)))]),
            refused("input 'x'", "16" if count else "", differs=PER_FORM),
        )
        for count in (0, 15, 17, 18)
    },
    "no data for a huge shape": (shaped([1, HUGE]), refused("input 'x'", differs=PER_FORM)),
    "no data for a shape whose product overflows": (shaped([HUGE, HUGE]), refused("input 'x'", differs=PER_FORM)),
    "no elements of a huge shape": (shaped([0, 2**62]), refused("input 'x': shape [0, 4611686018427387904] is beyond")),
    "huge and empty": (shaped([0, HUGE]), refused(f"input 'x': shape [0, {HUGE}] is beyond")),
    "rank 32 is none of the model's": (shaped([1] * 32, [1]), refused("expected shape [-1, -1]", "got [1, 1")),
    "rank 33": (shaped([1] * 33, [1]), refused("inputs[0].shape", "32", differs=OWN_FIELDS)),
    "rank 2,000": (shaped([1] * 2_000, [1]), refused("inputs[0].shape", "32", differs=OWN_FIELDS)),
    "negative shape": (shaped([1, -1], [1]), refused("inputs[0].shape", differs=OWN_FIELDS)),
    "smallest shape": (shaped([-(2**63)], [1]), refused("inputs[0].shape", differs=OWN_FIELDS)),
    **{
        f"wrong rank {len(shape)}": (
            shaped(shape, [1, 2][: math.prod(shape)]),
            refused("input 'x'", "expected shape [-1, -1], where -1 is the batch", f"got {shape}"),
        )
        for shape in ([], [2], [1, 2, 1])
    },
    "wrong dimension": (
        Ask("row16", [Given("INT32", [1, 15], list(range(15)))]),
        refused("input 'x'", "expected shape [-1, 16]", "got [1, 15]"),
    ),
    "batch sizes that differ": (
        Ask("add", [Given("FP32", [1, 2], [1, 2], "a"), Given("FP32", [2, 2], [1, 2, 3, 4], "b")]),
        refused("input 'b'", "batch size 2 differs from the 1"),
    ),
    # Names
    "an input twice": (named("ident_fp32", "x", "x"), refused("input 'x' is given twice")),
    "one of two twice": (named("add", "a", "b", "a"), refused("input 'a' is given twice")),
    "no input": (named("add"), refused("input 'a' is missing", "needs 'a', 'b'")),
    "one of two": (named("add", "a"), refused("input 'b' is missing")),
    "one too many": (named("add", "a", "b", "c"), refused("'c' is no input of model 'add'; it has 'a', 'b'")),
    "another case": (named("add", "a", "B"), refused("'B' is no input")),
    "no name": (named("ident_fp32", ""), refused("'' is no input")),
    "a long name": (named("ident_fp32", "😀" * 1_024), refused("input '😀", differs=CUT)),
    "a longer name": (
        named("ident_fp32", "x" * 1_025),
        refused("inputs[0].name", "1024", differs=OWN_FIELDS),
    ),
    "both inputs": (named("add", "b", "a"), OK),
    "1,025 inputs": (
        Ask("ident_fp32", [Given("FP32", [1, 1], [1], f"x{number}") for number in range(1_025)]),
        refused("inputs", "1024", differs=OWN_FIELDS),
    ),
    "1,024 inputs": (
        Ask("ident_fp32", [Given("FP32", [1, 1], [1], f"x{number}") for number in range(1_024)]),
        refused("'x0' is no input of model 'ident_fp32'; it has 'x'"),
    ),
    "an unknown output": (one("FP32", 1.0, outputs=["z"]), refused("'z' is no output of model 'ident_fp32'; it has")),
    "an output twice": (one("FP32", 1.0, outputs=["y", "y"]), refused("outputs: 'y' is asked for twice")),
    "outputs in an order": (Ask("two", [Given("INT64", [1, 2], [3, 4])], outputs=["negated", "total"]), OK),
    "one of two outputs": (Ask("two", [Given("INT64", [2, 2], [3, 4, 5, 6])], outputs=["total"]), OK),
    "all outputs": (Ask("two", [Given("INT64", [1, 2], [3, 4])]), OK),
    **{
        f"an unknown datatype {datatype!r}": (
            Ask("ident_fp32", [Given(datatype, [1, 1], [])]),
            refused(f"input 'x': unknown datatype {datatype!r}; use one of BOOL, "),
        )
        for datatype in ("FP31", "fp32", "", "STRING", "TYPE_FP32", "é")
    },
    "another datatype": (
        Ask("ident_fp32", [Given("INT64", [1, 2], [1, 2])]),
        refused("input 'x'", "expected datatype FP32", "got INT64"),
    ),
    "an unknown model": (scalar("nope", 1), Expected("not_found", ["nope"])),
    "an unknown version": (one("FP32", 1.0, version="9"), Expected("not_found", ["9"])),
    "a version that is none": (one("FP32", 1.0, version="latest"), Expected("not_found", ["latest"])),
    "the version": (one("FP32", 1.0, version="1"), OK),
    "a model that did not load": (scalar("broken", 1), Expected("not_ready", ["FileNotFoundError"])),
    "a model that was unloaded": (scalar("gone", 1), Expected("not_ready", ["gone"])),
    # Values
    **{f"the limits of {datatype}": (one(datatype, *values), OK) for datatype, values in LIMITS.items()},
    **{
        f"{value} as {datatype}": (one(datatype, 1, value), refused("[1]", forms=AS_NUMBERS, differs=PER_FORM))
        for datatype, values in TOO_LARGE.items()
        for value in values
    },
    **{
        f"{value} as {datatype}": (one(datatype, 1, value), refused("input 'x': data[1]", forms=[JSON_FORM]))
        for datatype, values in BEYOND_PROTOBUF.items()
        for value in values
    },
    "1 and 0 as BOOL": (one("BOOL", 1, 0), OK),
    "2 as BOOL": (one("BOOL", 2), refused("input 'x'", forms=[JSON_FORM])),
    "a byte 2 as BOOL": (
        Ask("ident_bool", [Given("BOOL", [1, 2], data=b"\1\2")]),
        refused("input 'x': a BOOL byte must be 0 or 1", forms=AS_BYTES),
    ),
    **{
        f"what {datatype} numbers may be": (
            one(datatype, math.nan, math.inf, -math.inf, 1.5),
            Expected("ok", forms=(*AS_BYTES, TYPED)),
        )
        for datatype in ("FP16", "BF16", "FP32", "FP64")
    },
    "strings of two dimensions": (Ask("ident_bytes", [Given("BYTES", [2, 2], ["a", "", "é", "😀" * 50])]), OK),
    "strings that are no text": (
        scalar("echo_bytes", b"\xff\xfe\x00", "BYTES"),  # type: ignore[arg-type]
        Expected("ok", forms=(*AS_BYTES, TYPED)),
    ),
    "strings that the engine does not take": (
        one("BYTES", b"\xff"),
        refused("input 'x'", forms=(*AS_BYTES, TYPED)),
    ),
    **{
        f"strings cut: {data!r}": (
            Ask("ident_bytes", [Given("BYTES", [1, 1], data=data)]),
            refused("input 'x'", forms=AS_BYTES),
        )
        for data in (b"\1", b"\1\0\0\0", b"\xff\xff\xff\xffa", b"\0\0\0\0\0\0\0\0", b"\1\0\0\0a\0")
    },
    "three dimensions of strings, some of them no text": (
        Ask("mixed_bytes", [Given("FP32", [1], [0])]),
        Expected("ok", forms=(*AS_BYTES, TYPED)),
    ),
    "an output of NaN": (
        Ask("non_finite", [Given("FP32", [1], [7])]),
        Expected("ok", forms=(*AS_BYTES, TYPED)),
    ),
    "an output of NaN as JSON": (
        Ask("non_finite", [Given("FP32", [1], [7])]),
        Expected("not_acceptable", ["output 'y'", "NaN", "binary"], forms=[JSON_FORM]),
    ),
    **{
        f"booleans from {form}": (
            Ask("booleans", [Given("FP32", [1], [0])], parameters={"form": form}),
            OK if form != "int8 array" else Expected("model_error", ["BOOL", "int8"]),
        )
        for form in ("array", "numpy bools", "Python bools", "int8 array")
    },
    # Ids
    **{
        f"id {id_[:12]!r} of {len(id_)}": (one("FP32", 1.0, id=id_), OK)
        for id_ in ("42", "x" * 8_192, 'a"b', "line\nbreak\r\n", "😀 ünïcödé", "\x00\x1f\\u0000", " ", "null", "")
    },
    "no id": (one("FP32", 1.0), OK),
    "an id too long": (one("FP32", 1.0, id="é" * 8_193), refused("id: ", "8192", differs=OWN_FIELDS)),
    # Parameters, priority, deadlines
    "parameters with their types": (
        scalar("echo", 0, parameters={"id": "123", "n": 7, "flag": True, "half": 0.5, "neg": -(2**63), "é": "😀"}),
        Expected("ok"),
    ),
    "no parameters": (scalar("echo", 0), OK),
    "consumed parameters": (scalar("echo", 0, parameters={"priority": 2, "timeout": 10_000_000, "kept": 1}), OK),
    **{
        f"priority {value!r}": (
            scalar("echo", 0, parameters={"priority": value}),
            OK if value in (0, 3, "1") and value is not True else refused("parameters.priority", repr(value)),
        )
        for value in (0, 3, "1", 4, -1, "high", True, 1.5, 2**63 - 1)
    },
    **{
        f"priority header {value!r}": (
            scalar("echo", 0, headers={"Guepard-Priority": value}),
            OK if value in ("0", "3") else refused("Guepard-Priority"),
        )
        for value in ("0", "3", "4", "-1", "high", "1.0", "9" * 40)
    },
    **{
        f"timeout {value!r}": (scalar("echo", 0, parameters={"timeout": value}), refused("parameters.timeout"))
        for value in (-1, 1.5, "soon", True, "-5")
    },
    **{
        f"timeout header {value!r}": (
            scalar("echo", 0, headers={"Guepard-Timeout-Ms": value}),
            refused("Guepard-Timeout-Ms: expected milliseconds above 0"),
        )
        for value in ("0", "-5", "soon", "nan", "inf", "1e99", "1_000", "1e3", "+5", "0x10", "5 5", "9" * 400)
    },
    **{
        f"deadline {name}": (
            scalar("impatient", 160, "INT32", **rest),
            Expected(
                "deadline_exceeded", ["the deadline passed while "], differs="it may still wait on a busy machine"
            ),
        )
        for name, rest in DEADLINES.items()
    },
    # Models that fail
    "a model that raises": (scalar("fail", -1), Expected("model_error", ["model 'fail' failed: ArithmeticError"])),
    "a model that refuses": (scalar("refuse", -1), refused("x must not be negative")),
    "one row that it refuses": (Ask("refuse", [Given("FP32", [3, 1], [1, -1, 2])]), refused("x must not be negative")),
    "a model that is stopped": (
        scalar("raises", 1, parameters={"how": "KeyboardInterrupt"}),
        Expected("model_error", ["model 'raises' failed"]),
    ),
    "a refusal of lone surrogates": (
        scalar("raises", 1, parameters={"how": "a message of lone surrogates"}),
        refused("refused ?"),
    ),
    "several responses": (
        scalar("stream", 2, "INT32"),
        Expected("unsupported", ["2 responses"], differs="what carries exactly one is named"),
    ),
    "a form that is none": (
        one("FP32", 1.0, parameters={"binary_data_output": "yes"}),
        refused("parameters.binary_data_output: expected true or false, got 'yes'", forms=[JSON_FORM, RAW]),
    ),
}


@pytest.mark.parametrize(("ask", "expected"), ROWS.values(), ids=ROWS.keys())
def test_one_request_four_ways(server: RunningServer, channel: grpc.Channel, ask: Ask, expected: Expected) -> None:
    outcomes = {form: send(form, server, channel, ask) for form in expected.forms}
    for form, outcome in outcomes.items():
        assert outcome.code == expected.code, (form, outcome)
        for fragment in expected.fragments:
            assert fragment in outcome.text, form
        for inside in ("Traceback", ".py", "/tmp", "site-packages", "secret"):
            assert inside not in outcome.text
        if expected.code != "ok":
            assert outcome.text
    if expected.differs:
        outcomes = {form: outcome._replace(text="") for form, outcome in outcomes.items()}
    assert len(set(outcomes.values())) == 1, outcomes
    if expected.code == "ok":
        assert next(iter(outcomes.values())).id == (ask.id or "")


def outputs_of(outcome: Outcome) -> dict[str, bytes]:
    assert outcome.code == "ok", outcome
    return {name: data for name, _, _, data in outcome.outputs}


@pytest.mark.parametrize("form", FORMS)
class TestValuesThatCameBack:
    """What the table compares with itself, compared with what is right."""

    @pytest.mark.parametrize("datatype", LIMITS)
    def test_limits(self, server: RunningServer, channel: grpc.Channel, form: str, datatype: str) -> None:
        ask = one(datatype, *LIMITS[datatype])
        outcome = send(form, server, channel, ask)
        assert outcome.outputs == (("y", datatype, (1, len(LIMITS[datatype])), to_bytes(ask.inputs[0])),)

    def test_parameters(self, server: RunningServer, channel: grpc.Channel, form: str) -> None:
        sent = {"id": "123", "n": 7, "flag": True, "half": 0.5, "whole": 2.0, "limit": -(2**63), "é": "😀", "": ""}
        outcome = send(form, server, channel, scalar("echo", 0, parameters=sent))
        told = json.loads(outputs_of(outcome)["parameters"][4:])
        assert told == sent
        assert [type(told[key]) for key in sent] == [type(value) for value in sent.values()]

    def test_outputs_in_the_order_asked_for(self, server: RunningServer, channel: grpc.Channel, form: str) -> None:
        ask = Ask("two", [Given("INT64", [1, 2], [3, 4])], outputs=["negated", "total"])
        outcome = send(form, server, channel, ask)
        assert outcome.outputs == (
            ("negated", "INT64", (1, 2), np.array([-3, -4]).tobytes()),
            ("total", "INT64", (1,), np.array([7]).tobytes()),
        )

    def test_what_is_no_number(self, server: RunningServer, channel: grpc.Channel, form: str) -> None:
        """openvinotoolkit/model_server#4337: a NaN was left out, and what followed it moved."""
        outcome = send(form, server, channel, Ask("non_finite", [Given("FP32", [1], [7])]))
        if form == JSON_FORM:  # which has no such number
            assert (outcome.code, outcome.outputs) == ("not_acceptable", ())
            return
        values = np.frombuffer(outputs_of(outcome)["y"], np.float32)
        assert np.array_equal(values, [1, math.nan, math.inf, -math.inf, 2], equal_nan=True)

    def test_strings_of_three_dimensions(self, server: RunningServer, channel: grpc.Channel, form: str) -> None:
        """triton-inference-server/server#3524: declared shape and byte layout of such an output disagreed."""
        outcome = send(form, server, channel, Ask("mixed_bytes", [Given("FP32", [1], [0])]))
        if form == JSON_FORM:  # some of them are no text
            assert (outcome.code, outcome.outputs) == ("not_acceptable", ())
            return
        assert outcome.outputs == (("y", "BYTES", (2, 2, 3), to_bytes(Given("BYTES", (), MIXED_BYTES))),)


def test_long_words_are_cut_where_a_client_would_not_take_them(server: RunningServer, channel: grpc.Channel) -> None:
    """Trailing metadata above the client's limit would hide the status behind one of the client's own."""
    for name in ("😀" * 1_024, "%" * 1_024, "é\n" * 500):
        ask = named("ident_fp32", name)
        whole, cut = [send(form, server, channel, ask) for form in (JSON_FORM, RAW)]
        assert cut.code == whole.code == "invalid_argument"
        assert whole.text.startswith(cut.text)
        assert len(cut.text.encode()) > 1_000


def test_a_tensor_without_elements_meets_others_in_a_batch(server: RunningServer, channel: grpc.Channel) -> None:
    """triton-inference-server/server#5972: zero bytes ended the server."""
    shapes = [[2, 0], [2, 3], [0, 3], [1, 3], [0, 0]] * 8
    asks = [shaped(shape, [float(number)] * math.prod(shape)) for number, shape in enumerate(shapes)]
    with ThreadPoolExecutor(len(asks)) as pool:
        outcomes = list(pool.map(lambda pair: send(FORMS[pair[0] % 4], server, channel, pair[1]), enumerate(asks)))
    for ask, outcome in zip(asks, outcomes, strict=True):
        assert outcome.outputs == (("y", "FP32", tuple(ask.inputs[0].shape), to_bytes(ask.inputs[0])),)


def test_an_input_given_twice_is_not_run(server: RunningServer, channel: grpc.Channel) -> None:
    """triton-inference-server/server#5956: one of the two was used, and which one depended on the build."""
    before = executions(server, "ident_fp32")
    for form in FORMS:
        assert send(form, server, channel, named("ident_fp32", "x", "x")).code == "invalid_argument"
    assert executions(server, "ident_fp32") == before


def executions(server: RunningServer, model: str) -> int:
    return int(server.request("GET", f"/v2/models/{model}/stats").json["model_stats"][0]["execution_count"])


def test_a_full_queue(server: RunningServer, channel: grpc.Channel) -> None:
    """One executes, one waits; whoever comes then is told when to come again."""

    def is_now(name: str) -> Callable[[], bool]:
        return lambda: gauge(server, f'{name}{{model="narrow",version="1"}}') == 1

    with ThreadPoolExecutor(2) as pool:
        running = pool.submit(send, RAW, server, channel, scalar("narrow", 1_500, "INT32"))
        wait_until(is_now("guepard_executing_requests"))
        waiting = pool.submit(send, JSON_FORM, server, channel, scalar("narrow", 1, "INT32"))
        wait_until(is_now("guepard_queue_depth"))
        refusals = {send(form, server, channel, scalar("narrow", 1, "INT32")) for form in FORMS}
        assert refusals == {Outcome("queue_full", "the queue is full (1 requests wait); try again later", True)}
        assert (running.result().code, waiting.result().code) == ("ok", "ok")


def test_a_grpc_deadline_counts_as_the_others_do(server: RunningServer, channel: grpc.Channel) -> None:
    """The client ends such a call, too, so the words may be its own."""
    message = service_pb2.ModelInferRequest(model_name="impatient")
    add_input(message, "x", "INT32", [1, 1], raw=np.array([400], np.int32).tobytes())
    answer = call(channel, message.SerializeToString(), timeout_s=0.05)
    assert answer.code == "DEADLINE_EXCEEDED"
    wait_until(lambda: gauge(server, "guepard_grpc_calls") == 0 and gauge(server, "guepard_inflight_bytes") == 0)
