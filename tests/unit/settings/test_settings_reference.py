"""What is derived from the declarations: the schema, the reference page, the switches, the engine's words."""

from pathlib import Path
from typing import Any, get_args

import jsonschema
import msgspec
import pytest
import yaml

from guepard.core.datatypes import DATATYPES
from guepard.core.engine_options import CudaOptions, OnnxRuntimeOptions, TensorRtOptions
from guepard.core.model_config import DynamicBatching, InstanceGroup, ModelPolicy, TimeoutPolicy
from guepard.settings.model_options import Datatype, ModelSettings
from guepard.settings.policy import repository_model, to_policy, to_tensor_specs
from guepard.settings.reference import pages
from guepard.settings.rules import is_loopback, risks
from guepard.settings.schema import settings_schema
from guepard.settings.switches import SWITCHES
from tests.unit.settings.resolving import settings_from, settings_of
from tests.unit.settings.wrong_files import SEEN_BY_THE_SCHEMA

REFERENCE = Path(__file__).parents[3] / "docs" / "reference"
RIGHT = """
server:
  host: 0.0.0.0
  http_port: 8000
  max_request_bytes: 64MB
  max_inflight_bytes: 1073741824
  pre_stop_delay: 0
  model_control_mode: explicit
  load_model: ['*']
models:
  - name: minilm
    path: ./minilm
    max_batch_size: 32
    instance_group: {count: auto, kind: auto, execution: auto}
    dynamic_batching: {max_queue_delay: 0, preferred_batch_size: [8, 32], max_queue_size: 256}
    max_concurrency: 64
    timeout: {default: 2s, max: 30s}
    idempotent: null
  - name: echo
    backend: identity
    instance_group: [{count: 2, kind: KIND_CPU}]
    dynamic_batching: {max_queue_delay_microseconds: 100}
    inputs: [{name: x, data_type: TYPE_STRING, dims: [-1, 4]}]
    parameters: {anything: [1, {goes: true}]}
    preprocess: [decode_image, {resize: {size: [224, 224]}}, {normalize: {mean: [0.5, 0.5, 0.5], std: 0.5}}]
    postprocess: [{top_k: {k: 3}}, {labels: {values: [a, b]}}, {softmax: }]
defaults:
auth: {anonymous: [infer, observe]}
logging: {level: debug, format: json, sample_rate: 1}
"""


@pytest.mark.parametrize("name", sorted(pages()))
def test_the_committed_page_is_current(name: str) -> None:
    assert (REFERENCE / name).read_text() == pages()[name], "run: python -m guepard.settings.reference"


def test_the_page_names_every_switch() -> None:
    page = pages()["settings.md"]
    for switch in SWITCHES:
        assert f"`{switch.flag}` | `{switch.environment}` |" in page


def test_switches_are_distinct() -> None:
    assert len({switch.flag for switch in SWITCHES}) == len(SWITCHES)
    assert len({switch.environment for switch in SWITCHES}) == len(SWITCHES)


def test_the_schema_takes_a_right_file(tmp_path: Path) -> None:
    jsonschema.Draft202012Validator.check_schema(settings_schema())
    jsonschema.validate(yaml.safe_load(RIGHT), settings_schema())
    assert [model.name for model in settings_from(tmp_path, RIGHT).models] == ["minilm", "echo"]


@pytest.mark.parametrize("text", [text for text, _ in SEEN_BY_THE_SCHEMA])
def test_the_schema_refuses_what_the_reader_refuses(text: str) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(yaml.safe_load(text), settings_schema())


def test_the_schema_states_the_defaults_that_hold(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").touch()
    server = settings_of(tmp_path, ["m.onnx"]).server
    schema: dict[str, Any] = settings_schema()["properties"]["server"]["anyOf"][0]["properties"]
    stated = {name: entry["default"] for name, entry in schema.items() if "default" in entry}
    assert stated["keep_alive"] == "75s"
    for name, default in stated.items():
        assert default == msgspec.to_builtins(getattr(server, name), enc_hook=str)


def test_datatypes_are_those_of_the_protocol() -> None:
    assert list(get_args(Datatype)) == list(DATATYPES)


def test_a_model_in_the_engines_words(tmp_path: Path) -> None:
    minilm, echo = settings_from(tmp_path, RIGHT).models
    assert to_policy(minilm) == ModelPolicy(
        max_batch_size=32,
        instance_group=InstanceGroup(0, "auto", "auto"),
        dynamic_batching=DynamicBatching(0, (8, 32), 256),
        timeout=TimeoutPolicy(2_000_000_000, 30_000_000_000),
        max_concurrency=64,
    )
    assert to_policy(echo).dynamic_batching.max_queue_delay_ns == 100_000
    assert to_policy(echo).parameters == {"anything": [1, {"goes": True}]}
    (spec,) = to_tensor_specs(echo.inputs)
    assert (spec.name, spec.datatype.name, spec.dims) == ("x", "BYTES", (-1, 4))


def test_a_model_on_a_gpu_in_the_engines_words(tmp_path: Path) -> None:
    text = """
models:
  - name: resnet
    path: m.onnx
    instance_group: [{count: 2, kind: KIND_GPU, gpus: [1]}]
    gpu_memory_limit: 2GiB
    onnxruntime:
      providers: [TensorrtExecutionProvider, cuda, CPUExecutionProvider]
      allow_fallback: true
      report_placement: true
      device_id: 1
      cuda:
        arena_extend_strategy: kSameAsRequested
        cudnn_conv_algo_search: EXHAUSTIVE
        use_tf32: false
        options: {prefer_nhwc: "1"}
      tensorrt:
        engine_cache: false
        timing_cache: false
        max_workspace_size: 1GiB
        builder_optimization_level: 5
        int8: true
        profile_min_shapes: x:1x3
        profile_opt_shapes: x:4x3
        profile_max_shapes: x:8x3
        enable_cuda_graph: true
        options: {trt_sparsity_enable: "True"}
"""
    jsonschema.validate(yaml.safe_load(text), settings_schema())
    (model,) = settings_from(tmp_path, text).models
    policy = to_policy(model)
    assert policy.instance_group == InstanceGroup(2, "gpu", gpus=(1,))
    assert policy.gpu_memory_limit_bytes == 2 << 30
    assert policy.engines.onnxruntime == OnnxRuntimeOptions(
        providers=("tensorrt", "cuda", "cpu"),
        device_id=1,
        allow_fallback=True,
        report_placement=True,
        cuda=CudaOptions("same_as_requested", "exhaustive", False, False, {"prefer_nhwc": "1"}),
        tensorrt=TensorRtOptions(
            False, False, 1 << 30, 5, True, "x:1x3", "x:4x3", "x:8x3", True, {"trt_sparsity_enable": "True"}
        ),
    )


def test_the_defaults_are_the_engines_own() -> None:
    assert to_policy(ModelSettings(name="m", path="m.onnx")) == ModelPolicy()


def test_a_model_of_a_repository_has_the_defaults(tmp_path: Path) -> None:
    (tmp_path / "r").mkdir()
    text = "server: {trust: true}\ndefaults: {max_batch_size: 5}\nmodel_repository: [r]"
    model = repository_model(settings_from(tmp_path, text), "found", "/r/found")
    assert (model.name, model.path, model.max_batch_size, model.trust) == ("found", "/r/found", 5, True)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "[::1]", "localhost"])
def test_loopback(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.org", ""])
def test_beyond_loopback(host: str) -> None:
    assert not is_loopback(host)


def test_open_management_is_a_risk(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").touch()
    opened = {"auth.anonymous": ["manage,observe"]}
    assert risks(settings_of(tmp_path, ["m.onnx"], flags=opened)) == []
    (risk,) = risks(settings_of(tmp_path, ["m.onnx"], flags=opened | {"server.host": "0.0.0.0"}))
    assert "anyone who reaches its ports can load and unload models" in risk
    (risk,) = risks(settings_of(tmp_path, ["m.onnx"], flags={"server.host": "0.0.0.0"}))
    assert "403 from /metrics" in risk


@pytest.mark.parametrize(
    ("group", "server", "words"),
    [
        ("execution: thread, memory_limit: 1GB", "", "memory_limit is for processes and execution is thread"),
        ("execution: inline, instance_timeout: 5s", "", "instance_timeout is for processes and execution is inline"),
        ("execution: inline, count: 2", "", "count is 2 and execution is inline, where one batch runs at a time"),
        ("execution: process, count: 2", "profile: low-memory", "each process holds an interpreter and a copy"),
    ],
)
def test_an_option_that_the_execution_makes_useless_is_a_risk(
    tmp_path: Path, group: str, server: str, words: str
) -> None:
    text = f"server: {{{server}}}\nmodels: [{{name: m, path: m.onnx, instance_group: {{{group}}}}}]"
    (risk,) = risks(settings_from(tmp_path, text))
    assert risk.startswith("model m: instance_group.")
    assert words in risk


@pytest.mark.parametrize(
    "group", ["memory_limit: 1GB", "execution: process, memory_limit: 1GB, count: 2", "execution: inline, count: 1"]
)
def test_options_that_may_come_to_use_are_no_risk(tmp_path: Path, group: str) -> None:
    assert risks(settings_from(tmp_path, f"models: [{{name: m, path: m.onnx, instance_group: {{{group}}}}}]")) == []
