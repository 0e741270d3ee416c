"""What must hold between the options of `guepard bench`."""

import os
import re
from collections.abc import Collection

from guepard.core.errors import ConfigurationError
from guepard.settings.bench_options import BenchOptions

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://.*|(?:\[[0-9A-Fa-f:.]+\]|[\w.-]+):[0-9]{1,5}(?:/.*)?|localhost(?:/.*)?")

_CLASHES = (
    ("rate", "concurrency", "an open loop has a rate, a closed loop a number of callers; write one of them"),
    ("rate", "find_max", "the rate is what --find-max looks for; leave --rate out"),
    ("concurrency", "find_max", "--find-max looks for a rate; leave --concurrency out"),
    ("requests", "find_max", "the search needs runs of its own length; bound them with --duration"),
    ("slo", "find_max", "--find-max names the goal itself; leave --slo out"),
    ("compare", "find_max", "find the highest rate of each target by itself, then compare them at one --rate"),
    ("compare", "scenario", "a comparison runs in turns of its own; leave --scenario out"),
    ("compare", "requests", "the turns of a comparison are bounded by --duration; leave --requests out"),
    ("arrivals", "concurrency", "a closed loop sends when answers come; write --rate, or leave --arrivals out"),
    ("arrivals", "scenario", "the scenario says how requests arrive; leave --arrivals out"),
    ("curl", "openapi", "each names the request; leave one of them out"),
    ("curl", "method", "the command names the method; write it there"),
    ("openapi", "method", "the document names the method; choose with --operation"),
    ("data", "body", "each gives the bodies; leave one of them out"),
    ("data", "shape", "the samples have shapes already; leave --shape out"),
    ("insecure", "ca_file", "one takes any certificate, the other checks it; leave one of them out"),
)
_NEEDS = (
    ("blocks", "compare", "turns are taken in a comparison"),
    ("operation", "openapi", "an operation is one of an OpenAPI document"),
)
_WITHOUT_SERVER = ("header", "body", "method", "wait_ready", "metrics_url", "connections", "processes")
_OF_TENSORS = ("batch", "shape", "model_version")
_WITHOUT_TENSORS = ("http", "openai-chat", "openai-completions", "openai-embeddings")
_STREAMS_OF_ARRIVALS = ("constant", "poisson")


def is_url(target: str) -> bool:
    """Is it a URL, or HOST:PORT, and no model? What exists as a file is a model."""
    return _URL.fullmatch(target) is not None and not os.path.exists(target)


def flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def enforce(options: BenchOptions, given: Collection[str]) -> None:
    """`given` names the options that were written. Raises: ConfigurationError, which names both sides and a remedy."""
    for one, other, remedy in _CLASHES:
        if one in given and other in given:
            raise _clash(flag(one), flag(other), remedy)
    for one, other, reason in _NEEDS:
        if one in given and other not in given:
            raise ConfigurationError(f"{flag(one)} without {flag(other)}: {reason}; add {flag(other)} or leave it out")
    for name in ("gate_limit", "junit"):
        if name in given and "gate" not in given and "compare" not in given:
            raise ConfigurationError(
                f"{flag(name)} without --gate or --compare: there is nothing to be worse than; add one, or leave it out"
            )
    if "junit" in given and "gate" not in given and "gate_limit" not in given:
        raise ConfigurationError("--junit without --gate-limit: say how much worse than A the other target may be")
    _check_target(options, given)
    _check_load(options, given)
    _check_scenario(options, given)
    _check_files(options)
    if options.question.max_errors > 1:
        raise ConfigurationError(f"--max-errors {options.question.max_errors}: expected at most 100%")


def _clash(one: str, other: str, remedy: str) -> ConfigurationError:
    return ConfigurationError(f"{one} and {other}: {remedy}")


def _check_target(options: BenchOptions, given: Collection[str]) -> None:
    target, request = options.target, options.request
    named = next((name for name in ("curl", "openapi") if name in given), None)
    if not target and named is None:
        raise ConfigurationError("name what to measure: a URL, a MODEL, --curl or --openapi")
    if target is not None and request.curl is not None:
        raise _clash(target, "--curl", "the command holds the URL; leave one of them out")
    if request.protocol == "in-process":
        _check_in_process(options, given, named)
    if target is not None and is_url(target):
        if request.trust:
            raise _clash(target, "--trust", "a server's code runs in the server; --trust is for a MODEL")
        if target.startswith("http://"):
            for name in ("insecure", "ca_file"):
                if name in given:
                    raise _clash(
                        target, flag(name), f"http has no certificates; write https, or leave {flag(name)} out"
                    )
    elif target is not None:
        for name in ("openapi", "insecure", "ca_file", "wait_ready", "metrics_url"):
            if name in given:
                raise _clash(target, flag(name), f"a MODEL is served by guepard itself{_if_meant(target)}")
    if request.protocol in _WITHOUT_TENSORS or request.curl is not None or request.openapi is not None:
        how = f"--protocol {request.protocol}" if request.protocol != "auto" else "--curl or --openapi"
        for name in (each for each in _OF_TENSORS if each in given):
            raise _clash(how, flag(name), f"only tensors have it; put it into the request, and leave {flag(name)} out")
    try:
        re.compile(request.expect or "")
    except re.error as error:
        raise ConfigurationError(f"--expect {request.expect}: no regular expression ({error})") from None


def _check_in_process(options: BenchOptions, given: Collection[str], named: str | None) -> None:
    """A model is called in this process: there is no server, and nothing of one."""
    how = "--protocol in-process"
    if named is not None:
        raise _clash(how, flag(named), "a request goes to a server; name a MODEL instead")
    for name, target in (("", options.target), ("--compare ", options.question.compare)):
        if target is not None and is_url(target):
            raise _clash(f"{name}{target}", how, "a URL leads to a server; name a MODEL, or leave --protocol out")
    for name in _WITHOUT_SERVER:
        if name in given:
            raise _clash(how, flag(name), f"there is no server between; leave {flag(name)} out")


def _if_meant(target: str) -> str:
    return f"; if {target} is a host, write http://{target}"


def _check_load(options: BenchOptions, given: Collection[str]) -> None:
    load, question = options.load, options.question
    kind = load.arrivals.kind
    if kind == "trace" and load.rate is not None:
        raise _clash("--arrivals trace", "--rate", "the trace says when requests are due; leave --rate out")
    if kind in ("bursts", "ramp") and load.rate is None:
        raise ConfigurationError(f"--arrivals {load.arrivals} without --rate: write the rate that it begins with")
    if question.find_max is not None and kind not in _STREAMS_OF_ARRIVALS:
        raise _clash("--find-max", f"--arrivals {load.arrivals}", "one rate is looked for; write constant or poisson")
    if question.compare is not None and kind in ("ramp", "trace"):
        raise _clash("--compare", f"--arrivals {load.arrivals}", "every turn has the same load; write another pattern")
    if load.warmup != "auto" and load.warmup >= options.duration:
        raise _clash(
            f"--warmup {load.warmup}",
            f"--duration {options.duration}",
            "nothing would be left to measure; raise --duration",
        )
    if load.concurrency is not None and "connections" in given and load.connections < load.concurrency:
        raise _clash(
            f"--concurrency {load.concurrency}",
            f"--connections {load.connections}",
            "each caller needs a connection; raise --connections or leave it out",
        )
    if load.concurrency is not None and load.processes != "auto" and load.processes > load.concurrency:
        raise _clash(
            f"--processes {load.processes}",
            f"--concurrency {load.concurrency}",
            "each process needs a caller; lower --processes",
        )


def _check_scenario(options: BenchOptions, given: Collection[str]) -> None:
    scenario = options.question.scenario
    if scenario is None:
        return
    if scenario == "server":
        if "concurrency" in given:
            raise _clash("--scenario server", "--concurrency", "its requests arrive by themselves; write --rate")
        if "slo" not in given and "find_max" not in given:
            raise ConfigurationError(
                "--scenario server: say its bound, as --find-max p99=50ms, or as --slo p99=50ms with --rate"
            )
        if "slo" in given and "rate" not in given:
            raise ConfigurationError("--scenario server with --slo: write --rate, or --find-max instead of --slo")
        return
    for name in ("rate", "find_max"):
        if name in given:
            raise _clash(f"--scenario {scenario}", flag(name), f"it is a closed loop; leave {flag(name)} out")
    if "concurrency" in given and scenario != "offline":
        raise _clash(f"--scenario {scenario}", "--concurrency", "it has one caller; leave --concurrency out")
    if "batch" in given and scenario == "multi-stream":
        raise _clash("--scenario multi-stream", "--batch", "each of its requests holds 8 samples; leave --batch out")


def _check_files(options: BenchOptions) -> None:
    """Nothing is written over what is read, and no file twice."""
    output = options.output
    files = {
        "--gate": options.question.gate,
        "--data": options.request.data,
        "--report": output.report,
        "--out": output.out,
        "--junit": output.junit,
    }
    seen: dict[str, str] = {}
    for name, file in files.items():
        if file is None:
            continue
        if not file:
            raise ConfigurationError(f"{name}: expected a file, got an empty text")
        path = os.path.realpath(file)
        if path in seen:
            raise _clash(seen[path], name, f"both name {file}; write another file")
        seen[path] = name
