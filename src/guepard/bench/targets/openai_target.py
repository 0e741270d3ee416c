"""Targets that speak OpenAI's API: chats, completions, embeddings."""

from collections.abc import Iterator
from itertools import count

import numpy as np

from guepard.bench.targets.header_lines import overlaid
from guepard.bench.targets.http_request import HttpRequest
from guepard.bench.targets.model_server import listed_models, only_model
from guepard.bench.targets.named_target import NamedTarget
from guepard.bench.targets.openai_requests import (
    MAX_TOKENS,
    PROMPT_WORDS,
    OpenAiBody,
    default_fields,
    generated_body,
    has_prompt,
    reply_rule,
    sampled_bodies,
    whole_body,
)
from guepard.bench.targets.payload_corpus import Made, generated_corpus, sampled_corpus
from guepard.bench.targets.prepared_target import PreparedTarget
from guepard.bench.targets.sample_files import data_files
from guepard.bench.targets.url_kind import openai_path
from guepard.core.errors import ConfigurationError


def prepare_openai(named: NamedTarget, protocol: str) -> PreparedTarget:
    """Raises: ConfigurationError, TargetRefused."""
    question = named.question
    for option, is_given in (("--method", question.method is not None), ("--shape", bool(question.shapes))):
        if is_given:
            raise ConfigurationError(f"{option}: means nothing to {protocol}; leave it out")
    path = openai_path(protocol, named.kind)
    fields = default_fields(protocol, named.model, question.body)
    notes: list[str] = []
    if "model" not in fields and question.data is None:
        fields["model"] = _only_model(named, path)
    if question.data is not None:
        bodies = _sampled(named, protocol, fields, path)
        source = f"samples in {question.data}"
    elif has_prompt(protocol, fields):
        bodies = iter([whole_body(fields)])
        source = "--body"
    else:
        bodies = _generated(protocol, fields, question.seed)
        source = f"prompts of {PROMPT_WORDS} random words by seed {question.seed}"
        if fields.get("max_tokens") == MAX_TOKENS:
            notes.append(f"at most {MAX_TOKENS} tokens are asked for; say --body '{{\"max_tokens\": 256}}' for others")
    streams: set[bool] = set()
    url = named.url.at(path, named.url.query)

    def made() -> Iterator[Made]:
        for body in bodies:
            streams.add(bool(body.document.get("stream")))
            headers = overlaid([("Content-Type", "application/json")], named.headers)
            request = HttpRequest("POST", url, headers, body.data, body.spot)
            yield Made(request.payload(), request.identity())

    is_generated = question.data is None and not has_prompt(protocol, fields)
    corpus = generated_corpus(made(), question.corpus_size, notes) if is_generated else sampled_corpus(made(), notes)
    if len(streams) > 1:
        raise ConfigurationError(f"{source}: some ask for a stream and some do not; measure them apart")
    if not is_generated:
        notes.append(f"prompts of a user are not rewritten: the {len(corpus.payloads)} requests repeat")
    return PreparedTarget(
        endpoint=named.endpoint,
        payloads=corpus.payloads,
        reply=reply_rule(protocol, question.expect or "", stream=streams == {True}),
        target=named.told(protocol, fields.get("model"), None, None),
        source=source,
        sha256=corpus.sha256,
        notes=tuple(notes),
        path_prefix=named.kind.prefix,
        headers=named.headers,
    )


def _generated(protocol: str, fields: dict[str, object], seed: int) -> Iterator[OpenAiBody]:
    for number in count():
        yield generated_body(protocol, fields, np.random.default_rng((seed, number)), number)


def _sampled(named: NamedTarget, protocol: str, fields: dict[str, object], path: str) -> Iterator[OpenAiBody]:
    """The model is asked for with the first sample that names none."""
    assert named.question.data is not None
    for file in data_files(named.question.data):
        for body in sampled_bodies(protocol, fields, file):
            if "model" not in body.document:
                fields.setdefault("model", _only_model(named, path))
                body = whole_body({"model": fields["model"], **body.document})
            yield body


def _only_model(named: NamedTarget, path: str) -> str:
    """The one that the list of models beside `path` has."""
    models = path.removesuffix("/chat/completions").removesuffix("/completions").removesuffix("/embeddings") + "/models"
    return only_model(listed_models(named.asker(), models), named.url.shown)
