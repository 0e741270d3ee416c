"""Bodies of requests to OpenAI's API, and how its streams are read.

Source: OpenAI, "Chat completions", "Completions", "Embeddings", "Streaming".
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import orjson

from guepard.bench.targets.random_tensors import MARK_DIGITS, random_words
from guepard.bench.targets.sample_files import JSON_SUFFIXES, TEXT_SUFFIX, json_samples, text_lines
from guepard.core.errors import ConfigurationError
from guepard.measure.load.plan import ReplyRule, UniqueSpot

PROMPT_WORDS = 32
MAX_TOKENS = 64

_FIELDS = {"openai-chat": "messages", "openai-completions": "prompt", "openai-embeddings": "input"}
# A delta that brings something: reasoning models call it reasoning_content, or reasoning.
_PIECES = {
    "openai-chat": r'"delta"\s*:\s*\{[^{}]*"(?:(?:reasoning_)?content|reasoning)"\s*:\s*"[^"]'
    r'|"delta"\s*:\s*\{[^{}]*"tool_calls"\s*:\s*\[\s*\{',
    "openai-completions": r'"text"\s*:\s*"[^"]',
}
_ERROR = r'^\s*\{\s*(?:"error"\s*:\s*(?!null)|"object"\s*:\s*"error")'


class OpenAiBody(NamedTuple):
    document: dict[str, Any]
    data: bytes
    spot: UniqueSpot | None = None


def reply_rule(protocol: str, expect: str, *, stream: bool) -> ReplyRule:
    """How an answer is read; of chats and completions the pieces of a stream are the events that bring text.

    Raises: ConfigurationError for `expect` with a stream, whose text comes in pieces.
    """
    if not stream:
        return ReplyRule(expect=expect)
    if expect:
        raise ConfigurationError("--expect: a stream is judged by its events and its end; leave it out")
    if protocol not in _PIECES:
        return ReplyRule(events=True)
    return ReplyRule(events=True, last_event="[DONE]", piece=_PIECES[protocol], error_event=_ERROR)


def default_fields(protocol: str, model: str | None, body: str | None) -> dict[str, Any]:
    """What every request has, `body` (a JSON object of the user's) laid over it. Raises: ConfigurationError."""
    fields: dict[str, Any] = {"model": model} if model else {}
    if protocol != "openai-embeddings":
        fields |= {"stream": True, "max_tokens": MAX_TOKENS}
    if body is None:
        return fields
    try:
        given = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise ConfigurationError(f"--body: not valid JSON ({error})") from None
    return _merged(protocol, fields, given, "--body")


def generated_body(protocol: str, fields: dict[str, Any], random: np.random.Generator, number: int) -> OpenAiBody:
    """A prompt of random words behind a number, which the spot rewrites: no prefix of it is in a cache."""
    mark = f"{number:0{MARK_DIGITS}d}"
    prompt = f"{mark} {random_words(random, PROMPT_WORDS)}"
    document = {**fields, _FIELDS[protocol]: _asked(protocol, prompt)}
    data = orjson.dumps(document)
    return OpenAiBody(
        document, data, UniqueSpot(offset=data.index(f'"{prompt}'.encode()) + 1, width=MARK_DIGITS, form="digits")
    )


def has_prompt(protocol: str, fields: dict[str, Any]) -> bool:
    """Whether the user's own fields are a whole request."""
    return _FIELDS[protocol] in fields


def sampled_bodies(protocol: str, fields: dict[str, Any], path: Path) -> Iterator[OpenAiBody]:
    """One request for each line of text, or for each prompt, list of messages or object in JSON.

    Raises: ConfigurationError that names the sample.
    """
    if path.suffix in JSON_SUFFIXES:
        if path.suffix == ".json" and protocol == "openai-chat" and _is_messages(sample := _whole(path)):
            yield whole_body(_merged(protocol, fields, sample, str(path)))
            return
        for one in json_samples(path):
            yield whole_body(_merged(protocol, fields, orjson.loads(one.content), one.where))
    elif path.suffix == TEXT_SUFFIX:
        for line in text_lines(path):
            yield whole_body(_merged(protocol, fields, line, str(path)))
    else:
        kinds = ", ".join((*JSON_SUFFIXES, TEXT_SUFFIX))
        raise ConfigurationError(f"{path}: is not read as prompts; use {kinds}")


def whole_body(document: dict[str, Any]) -> OpenAiBody:
    return OpenAiBody(document, orjson.dumps(document))


def _merged(protocol: str, fields: dict[str, Any], given: object, where: str) -> dict[str, Any]:
    field = _FIELDS[protocol]
    if isinstance(given, str):
        return {**fields, field: _asked(protocol, given)}
    if isinstance(given, list) and given:
        return {**fields, field: given}
    if not isinstance(given, dict):
        raise ConfigurationError(f"{where}: expected a prompt, a list or an object, got {str(given)[:40]!r}")
    merged = {**fields, **given}
    if protocol == "openai-chat" and "messages" not in given and "prompt" in given:
        merged["messages"] = _asked(protocol, merged.pop("prompt"))
    for other in ("messages", "prompt"):
        if other in merged and other != field:
            raise ConfigurationError(
                f"{where}: {other} belongs to another route than {protocol}, which takes {field}; rename it, or name "
                "another --protocol"
            )
    return merged


def _asked(protocol: str, prompt: object) -> object:
    return [{"role": "user", "content": prompt}] if protocol == "openai-chat" else prompt


def _whole(path: Path) -> object:
    try:
        return orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return None  # json_samples says what is wrong


def _is_messages(document: object) -> bool:
    """A `.json` that is one conversation, rather than a list of samples."""
    return (
        isinstance(document, list)
        and all(isinstance(one, dict) and "role" in one for one in document)
        and bool(document)
    )
