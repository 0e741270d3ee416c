"""What must hold between options: errors that refuse a configuration, and risks that are worth a warning."""

from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path

from guepard.core.errors import ConfigurationError
from guepard.settings.model_location import repository_models
from guepard.settings.model_options import InstanceGroupSettings, ModelOptions, ModelSettings, TimeoutSettings
from guepard.settings.onnxruntime_options import enforce_onnxruntime
from guepard.settings.options import ServerSettings, Settings


def is_loopback(host: str) -> bool:
    """True when nothing but this machine can reach the address."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def enforce(settings: Settings, labels: Sequence[str]) -> None:
    """Raise ConfigurationError unless the options fit together; `labels` says where each model was named."""
    _enforce_server(settings.server)
    _enforce_gpus(settings.defaults, "defaults")
    for model, label in zip(settings.models, labels, strict=True):
        _enforce_model(model, label)
    _enforce_unique_names(settings, labels)
    if not settings.models and not settings.model_repository:
        raise ConfigurationError(
            "no model to serve; name one (guepard serve model.onnx), give --model-repository DIR, "
            "or write models: into guepard.yaml"
        )


def _enforce_server(server: ServerSettings) -> None:
    taken: dict[int | str, str] = {}
    for option in ("http_port", "grpc_port", "metrics_port"):
        port: int | str = getattr(server, option)
        if port in taken:
            raise ConfigurationError(f"server.{option}: {port} is {taken[port]} too; write another port, or 0 for any")
        if port not in (0, "none"):
            taken[port] = f"server.{option}"
    if server.load_model and server.model_control_mode != "explicit":
        raise ConfigurationError(
            "server.load_model: all models are loaded at start; write model_control_mode: explicit to choose among them"
        )
    if server.cache_dir is not None and not server.cache_dir.strip():
        raise ConfigurationError("server.cache_dir: empty; write a folder, or none to keep nothing")
    for index, prefix in enumerate(server.allow_client_shm):
        name = prefix.removeprefix("/")
        if not name or "/" in name or not name.isprintable():
            raise ConfigurationError(
                f"server.allow_client_shm[{index}]: {prefix!r} is not the beginning of an object's name; "
                "write one such as guepard-"
            )


def _enforce_model(model: ModelSettings, label: str) -> None:
    if model.path is None and model.backend != "identity":
        raise ConfigurationError(f"{label}.path: missing; write the model's file or folder")
    if model.backend == "identity" and not model.inputs:
        raise ConfigurationError(f"{label}.inputs: the identity backend needs its tensors here")
    unsaid = TimeoutSettings().default  # a default that nobody wrote gives way to `max`, as every deadline does
    if model.timeout.default > model.timeout.max and model.timeout.default != unsaid:
        raise ConfigurationError(
            f"{label}.timeout.default: {model.timeout.default} is above timeout.max, {model.timeout.max}"
        )
    _enforce_gpus(model, label)
    largest = max(model.dynamic_batching.preferred_batch_size, default=0)
    if model.max_batch_size is not None and largest > model.max_batch_size:
        raise ConfigurationError(
            f"{label}.dynamic_batching.preferred_batch_size: {largest} is above max_batch_size, {model.max_batch_size}"
        )


def _enforce_gpus(model: ModelOptions, label: str) -> None:
    group = model.instance_group
    enforce_onnxruntime(model.onnxruntime, group.kind, group.gpus, label)


def _enforce_unique_names(settings: Settings, labels: Sequence[str]) -> None:
    found = [(model.name, label) for model, label in zip(settings.models, labels, strict=True)]
    for repository in settings.model_repository:
        found.extend((name, repository) for name in repository_models(Path(repository)))
    seen: dict[str, str] = {}
    for name, place in found:
        if name in seen:
            raise ConfigurationError(
                f"{place}: the name {name} is taken by {seen[name]}; rename one of the two "
                "(NAME=PATH on the command line, name: in the file, {NAME: model} in a program)"
            )
        seen[name] = place


def risks(settings: Settings) -> list[str]:
    """What is allowed, yet probably not meant."""
    found = []
    server, anonymous = settings.server, settings.auth.anonymous
    if not is_loopback(server.host):
        if "manage" in anonymous:
            found.append(
                f"auth.anonymous holds manage and server.host is {server.host}: anyone who reaches its ports "
                "can load and unload models"
            )
        if "observe" not in anonymous:
            found.append(
                f"server.host is {server.host} and auth.anonymous does not hold observe: a Prometheus server "
                "will get 403 from /metrics"
            )
    if not server.drain_timeout:
        found.append("server.drain_timeout is 0: requests still running at SIGTERM are cut off")
    for model in settings.models:
        found.extend(f"model {model.name}: {risk}" for risk in _group_risks(model.instance_group, server))
    return found


def _group_risks(group: InstanceGroupSettings, server: ServerSettings) -> list[str]:
    count = 1 if group.count == "auto" else group.count
    found = [
        f"instance_group.{option} is for processes and execution is {group.execution}, so nothing keeps to it; "
        "write execution: process, or leave it out"
        for option in ("instance_timeout", "memory_limit")
        if group.execution in ("inline", "thread") and getattr(group, option) is not None
    ]
    if group.execution == "inline" and count > 1:
        found.append(
            f"instance_group.count is {count} and execution is inline, where one batch runs at a time; "
            "write execution: thread, or leave count out"
        )
    if group.execution == "process" and count > 1 and server.profile == "low-memory":
        found.append(
            f"instance_group.count is {count} and server.profile is low-memory: each process holds an interpreter and "
            "a copy of the model; leave count out for one"
        )
    return found
