"""Command line > environment > file > default, and what the pieces become together."""

from pathlib import Path

import pytest

from guepard.core.errors import ConfigurationError
from guepard.core.padding import PaddingRules
from guepard.settings.policy import to_policy
from guepard.settings.units import ByteSize, Duration
from tests.unit.settings.resolving import settings_from, settings_of

FILE = """
server: {http_port: 1001, metrics_port: 1002, trust: true, allowed_hosts: [a, b]}
logging: {level: error}
models:
  - {name: m, path: ./sub/m.onnx, timeout: {max: 1m}}
defaults:
  max_batch_size: 16
  timeout: {default: 5s}
  parameters: {a: 1}
"""


def test_each_layer_hides_the_one_below(tmp_path: Path) -> None:
    (tmp_path / "guepard.yaml").write_text(FILE)
    environment = {"GUEPARD_METRICS_PORT": "2002", "GUEPARD_HTTP_PORT": "2001", "GUEPARD_LOG_LEVEL": ""}
    settings = settings_of(tmp_path, flags={"server.http_port": "3001"}, environment=environment)
    assert settings.server.http_port == 3001
    assert settings.server.metrics_port == 2002
    assert settings.logging.level == "error"
    assert settings.server.host == "127.0.0.1"


def test_lists_and_booleans_from_text(tmp_path: Path) -> None:
    (tmp_path / "guepard.yaml").write_text(FILE)
    environment = {"GUEPARD_ALLOWED_HOSTS": "x, y,", "GUEPARD_TRUST": "false", "GUEPARD_LOG_SAMPLE_RATE": "0.5"}
    settings = settings_of(tmp_path, flags={"auth.anonymous": ["infer,observe", "manage"]}, environment=environment)
    assert settings.server.allowed_hosts == ("x", "y")
    assert settings.server.trust is False
    assert settings.logging.sample_rate == 0.5
    assert settings.auth.anonymous == ("infer", "observe", "manage")


def test_a_model_takes_from_defaults_what_it_does_not_say(tmp_path: Path) -> None:
    (model,) = settings_from(tmp_path, FILE).models
    assert model.max_batch_size == 16
    assert (model.timeout.default, model.timeout.max) == (Duration.read("5s"), Duration.read("1m"))
    assert model.parameters == {"a": 1}
    assert model.trust is True


def test_a_model_may_unset_what_defaults_set(tmp_path: Path) -> None:
    (model,) = settings_from(
        tmp_path,
        "defaults: {max_batch_size: 8, trust: true}\n"
        "models: [{name: m, path: m.onnx, max_batch_size: null, trust: false}]",
    ).models
    assert model.max_batch_size is None
    assert model.trust is False


def test_paths_are_relative_to_where_they_are_written(tmp_path: Path) -> None:
    folder = tmp_path / "etc"
    (folder / "repository").mkdir(parents=True)
    (tmp_path / "own").mkdir()
    (tmp_path / "model.onnx").touch()
    (folder / "some.yaml").write_text("models: [{name: m, path: ./sub/m.onnx}]\nmodel_repository: [repository]")
    settings = settings_of(tmp_path, ["model.onnx"], config="etc/some.yaml")
    assert [model.path for model in settings.models] == [str(folder / "sub/m.onnx"), str(tmp_path / "model.onnx")]
    assert settings.model_repository == (str(folder / "repository"),)
    settings = settings_of(tmp_path, config="etc/some.yaml", flags={"model_repository": ["own"]})
    assert settings.model_repository == (str(tmp_path / "own"),)


@pytest.mark.parametrize(("written", "meant"), [("~/c", "{home}/c"), ("c", "{etc}/c"), ("none", "none")])
def test_the_cache_is_where_a_person_means_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str, meant: str
) -> None:
    (tmp_path / "etc").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    text = f"models: [{{name: m, path: m.onnx}}]\nserver: {{cache_dir: '{written}'}}"
    (tmp_path / "etc" / "some.yaml").write_text(text)
    expected = meant.format(home=tmp_path / "home", etc=tmp_path / "etc")
    assert settings_of(tmp_path, config="etc/some.yaml").server.cache_dir == expected


def test_the_file_in_the_folder_is_read_only_when_nothing_is_named(tmp_path: Path) -> None:
    (tmp_path / "guepard.yaml").write_text(FILE)
    (tmp_path / "other.onnx").touch()
    assert [model.name for model in settings_of(tmp_path).models] == ["m"]
    assert [model.name for model in settings_of(tmp_path, ["other.onnx"]).models] == ["other"]


def test_the_environment_may_name_the_file(tmp_path: Path) -> None:
    (tmp_path / "elsewhere.yaml").write_text(FILE)
    assert settings_of(tmp_path, environment={"GUEPARD_CONFIG": "elsewhere.yaml"}).server.http_port == 1001


def test_triton_spellings_mean_the_same(tmp_path: Path) -> None:
    ours, tritons = settings_from(
        tmp_path,
        """
models:
  - name: ours
    backend: identity
    instance_group: {count: 2, kind: cpu}
    dynamic_batching: {max_queue_delay: 2ms}
    timeout: {default: 1s}
    inputs: [{name: x, datatype: FP32, dims: [4]}, {name: t, datatype: BYTES, dims: [-1]}]
  - name: tritons
    backend: identity
    instance_group: [{count: 2, kind: KIND_CPU}]
    dynamic_batching: {max_queue_delay_microseconds: 2000}
    timeout: {default_timeout_microseconds: 1000000}
    inputs: [{name: x, data_type: TYPE_FP32, dims: [4]}, {name: t, data_type: TYPE_STRING, dims: [-1]}]
""",
    ).models
    for field in ("instance_group", "dynamic_batching", "timeout", "inputs"):
        assert getattr(ours, field) == getattr(tritons, field)


def test_defaults_that_depend_on_the_place(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").touch()
    plain = settings_of(tmp_path, ["m.onnx"])
    assert plain.server.pre_stop_delay == 0
    assert plain.logging.format == "json"
    assert plain.server.max_request_bytes == ByteSize.read("128MiB")
    pod = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "GUEPARD_HTTP_PORT": "tcp://10.0.0.7:8000"}
    in_pod = settings_of(tmp_path, ["m.onnx"], environment=pod, is_terminal=True)
    assert in_pod.server.pre_stop_delay == Duration.read("5s")
    assert in_pod.server.http_port == 8000
    assert in_pod.logging.format == "console"
    chosen = settings_of(tmp_path, ["m.onnx"], environment=pod | {"GUEPARD_PRE_STOP_DELAY": "0"})
    assert chosen.server.pre_stop_delay == 0


def test_nothing_to_serve_says_what_to_write(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"guepard serve model\.onnx.*--model-repository.*guepard\.yaml"):
        settings_of(tmp_path)


def test_two_models_of_one_name(tmp_path: Path) -> None:
    (tmp_path / "repository" / "m" / "1").mkdir(parents=True)
    (tmp_path / "m.onnx").touch()
    with pytest.raises(ConfigurationError, match=r"the name m is taken by .*m\.onnx; rename one.*NAME=PATH"):
        settings_of(tmp_path, ["m.onnx", "repository"])


def test_a_missing_file_is_answered_with_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "guepard.yaml").touch()
    with pytest.raises(ConfigurationError, match=r"did you mean .*guepard\.yaml"):
        settings_of(tmp_path, config="guepard.yml")


def test_padding_is_handed_on_as_it_is_written(tmp_path: Path) -> None:
    """What is not said stays unsaid, for the model may say it; what is empty says no."""
    (tmp_path / "guepard.yaml").write_text(
        "models: [{name: a, path: a.onnx, padding: {inputs: {ids: 0, x: -0.5}, outputs: {y: 0}, buckets: [8, 4]}},"
        " {name: b, path: b.onnx, padding: {inputs: {}, max_padding: 0}}, {name: c, path: c.onnx}]\n"
        "defaults: {padding: {max_tokens: 64}}"
    )
    first, second, third = (to_policy(model).padding for model in settings_of(tmp_path).models)
    assert first == PaddingRules({"ids": 0, "x": -0.5}, {"y": 0}, (8, 4), 64)
    assert second == PaddingRules({}, None, None, 64, 0)
    assert third == PaddingRules(max_tokens=64)
