"""From what a user names to payloads that are ready to send."""

import msgspec

from guepard.bench.targets.http_target import prepare_http
from guepard.bench.targets.model_server import HttpModelServer
from guepard.bench.targets.named_target import named_target
from guepard.bench.targets.openai_target import prepare_openai
from guepard.bench.targets.prepared_target import PreparedTarget
from guepard.bench.targets.target_question import OPENAI_PROTOCOLS, TENSOR_PROTOCOLS, TargetQuestion, check_question
from guepard.bench.targets.tensor_target import prepare_tensors


def prepare(question: TargetQuestion) -> PreparedTarget:
    """Everything that a load needs of the target which `question` names.

    Asks the target for what the question leaves open (model, tensors), and sends no inference; `probe` does.
    Raises: ConfigurationError for what the user has to say otherwise; TargetRefused for a target that cannot be
    reached or does not answer as it should.
    """
    check_question(question)
    if question.curl is not None or question.openapi is not None or question.protocol == "http":
        return prepare_http(question)
    named = named_target(question)
    protocol = question.protocol if question.protocol != "auto" else named.kind.protocol
    if protocol in TENSOR_PROTOCOLS:
        return prepare_tensors(named, protocol)
    if protocol in OPENAI_PROTOCOLS:
        return prepare_openai(named, protocol)
    if not named.kind.is_bare or question.method is not None:
        return prepare_http(question)
    if HttpModelServer(named.asker(), named.kind.prefix).speaks_oip():
        return prepare_tensors(named, "oip-json")
    prepared = prepare_http(question)
    note = (
        "GET /v2 is not answered as the Open Inference Protocol has it: the URL itself is measured, as a plain request"
    )
    return msgspec.structs.replace(prepared, notes=(note, *prepared.notes))
