"""What a user names to be measured, before anything has been asked or read."""

import re
from typing import Literal, get_args

from msgspec import Struct

from guepard.core.errors import ConfigurationError

Protocol = Literal[
    "auto",
    "oip-json",
    "oip-binary",
    "oip-grpc",
    "predict",
    "openai-chat",
    "openai-completions",
    "openai-embeddings",
    "http",
]

PROTOCOLS: tuple[str, ...] = get_args(Protocol)
TENSOR_PROTOCOLS = ("oip-json", "oip-binary", "oip-grpc", "predict")
OPENAI_PROTOCOLS = ("openai-chat", "openai-completions", "openai-embeddings")


class TargetQuestion(Struct, frozen=True, kw_only=True):
    """The words of the user. Paths are seen from the working directory; `headers` are lines, `Name: value`.

    url: may be empty where `curl` or `openapi` name one. data: a file or folder of samples. batch: rows of a request,
    where the model takes several. shapes: `NAME:3,224` for inputs whose dimensions are free. body: the body of every
    request, or the fields that OpenAI requests are to have. curl: a whole curl command. openapi: a file or URL, of
    which `operation` names one operation. wait_ready_s: how long a target that is not there yet is waited for.
    """

    url: str = ""
    protocol: str = "auto"
    model: str | None = None
    model_version: str | None = None
    data: str | None = None
    batch: int = 1
    shapes: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    method: str | None = None
    body: str | None = None
    seed: int = 1
    corpus_size: int = 256
    expect: str | None = None
    insecure: bool = False
    ca_file: str | None = None
    timeout_s: float = 30.0
    wait_ready_s: float = 0.0
    curl: str | None = None
    openapi: str | None = None
    operation: str | None = None


def check_question(question: TargetQuestion) -> None:
    """Raises: ConfigurationError for values and combinations that mean nothing."""
    if question.protocol not in PROTOCOLS:
        raise ConfigurationError(f"--protocol {question.protocol}: unknown; use one of {', '.join(PROTOCOLS)}")
    for name, number in (("--batch", question.batch), ("corpus_size", question.corpus_size)):
        if number < 1:
            raise ConfigurationError(f"{name} {number}: expected 1 or more")
    if question.seed < 0:
        raise ConfigurationError(f"--seed {question.seed}: expected 0 or more")
    if question.timeout_s <= 0:
        raise ConfigurationError(f"--timeout {question.timeout_s:g}: expected more than 0 seconds")
    if question.curl is not None and question.openapi is not None:
        raise ConfigurationError("--curl and --openapi: each names the request; leave one of them out")
    if question.operation is not None and question.openapi is None:
        raise ConfigurationError("--operation: names an operation of an OpenAPI document; say which with --openapi")
    if not question.url and question.curl is None and question.openapi is None:
        raise ConfigurationError("name what to measure: a URL, --curl or --openapi")
    for name, text in (("curl", question.curl), ("openapi", question.openapi)):
        if text is not None and question.protocol not in ("auto", "http"):
            raise ConfigurationError(
                f"--protocol {question.protocol}: --{name} gives a whole HTTP request; leave --protocol out"
            )
    if question.expect is not None:
        try:
            re.compile(question.expect)
        except re.error as error:
            raise ConfigurationError(f"--expect {question.expect}: no regular expression ({error})") from None
