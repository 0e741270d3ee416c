"""From what a user names to payloads that are ready to send."""

import msgspec

from guepard.bench.targets.http_target import prepare_http
from guepard.bench.targets.model_server import HttpModelServer
from guepard.bench.targets.named_target import NamedTarget, named_target
from guepard.bench.targets.openai_target import prepare_openai
from guepard.bench.targets.prepared_target import PreparedTarget
from guepard.bench.targets.target_question import OPENAI_PROTOCOLS, TENSOR_PROTOCOLS, TargetQuestion, check_question
from guepard.bench.targets.tensor_target import prepare_tensors
from guepard.core.errors import ConfigurationError


def prepare(question: TargetQuestion) -> PreparedTarget:
    """Everything that a load needs of the target which `question` names.

    Asks the target for what the question leaves open (model, tensors), and sends no inference; `probe` does.
    Raises: ConfigurationError for what the user has to say otherwise; TargetRefused for a target that cannot be
    reached or does not answer as it should.
    """
    check_question(question)
    if question.curl is not None or question.openapi is not None:
        return _prepare_http(question)
    named = named_target(question)
    protocol = question.protocol
    if protocol == "auto":
        protocol = named.kind.protocol or "http"
        if named.kind.is_bare and question.method is None:
            return _prepare_bare(named)
    if protocol in OPENAI_PROTOCOLS:
        return prepare_openai(named, protocol)
    if protocol in TENSOR_PROTOCOLS:
        return _prepare_tensors(named, protocol)
    return _prepare_http(question)


def _prepare_bare(named: NamedTarget) -> PreparedTarget:
    """A host of which the URL says nothing: inferences where it serves models, else plain requests."""
    if HttpModelServer(named.asker(), named.kind.prefix).speaks_oip():
        return _prepare_tensors(named, "oip-json")
    prepared = _prepare_http(named.question)
    note = "GET /v2 is not answered as the Open Inference Protocol has it: the URL is measured as a plain request"
    return msgspec.structs.replace(prepared, notes=(note, *prepared.notes))


def _prepare_http(question: TargetQuestion) -> PreparedTarget:
    _check_bodies(question)
    return prepare_http(question)


def _prepare_tensors(named: NamedTarget, protocol: str) -> PreparedTarget:
    _check_bodies(named.question)
    return prepare_tensors(named, protocol)


def _check_bodies(question: TargetQuestion) -> None:
    """Only to OpenAI's requests do both have something to say: the fields, and the prompts."""
    if question.data is not None and question.body is not None:
        raise ConfigurationError("--data and --body: each gives the bodies; leave one of them out")
