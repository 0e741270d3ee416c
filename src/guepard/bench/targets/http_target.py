"""Targets that are any request over HTTP: a URL and samples, a curl command, or an operation of an OpenAPI document."""

from collections.abc import Iterator
from mimetypes import guess_type
from pathlib import Path
from typing import NamedTuple

import msgspec
import orjson

from guepard.bench.targets.curl_line import read_curl
from guepard.bench.targets.header_lines import Headers, overlaid
from guepard.bench.targets.http_asker import NOT_READY
from guepard.bench.targets.http_exchange import exchange
from guepard.bench.targets.http_request import HttpRequest
from guepard.bench.targets.named_target import NamedTarget, named_target
from guepard.bench.targets.openai_requests import reply_rule
from guepard.bench.targets.openapi_document import read_document
from guepard.bench.targets.openapi_example import example_request, joined_base
from guepard.bench.targets.payload_corpus import Made, sampled_corpus
from guepard.bench.targets.prepared_target import PreparedTarget
from guepard.bench.targets.refusals import http_refusal
from guepard.bench.targets.sample_files import JSON_SUFFIXES, data_files, json_samples, read_file
from guepard.bench.targets.target_question import OPENAI_PROTOCOLS, TargetQuestion
from guepard.bench.targets.target_url import TargetUrl
from guepard.bench.targets.unique_spots import number_spot
from guepard.bench.targets.url_kind import url_kind
from guepard.core.errors import ConfigurationError
from guepard.measure.load.plan import ReplyRule

_STREAM_ROUTE = "/generate_stream"  # of Triton's generate extension and of text-generation-inference


class _Template(NamedTuple):
    """A request whose bodies may be several. `headers` come before the user's own."""

    named: NamedTarget
    method: str | None
    headers: Headers
    bodies: tuple[bytes, ...]
    source: str
    notes: tuple[str, ...]


class _Content(NamedTuple):
    body: bytes
    media_type: str | None


def prepare_http(question: TargetQuestion) -> PreparedTarget:
    """Raises: ConfigurationError; TargetRefused for a document that cannot be fetched."""
    template = _template(question)
    named = template.named
    if named.url.is_grpc:
        raise ConfigurationError(f"--protocol http: {named.url.scheme}:// is for oip-grpc; write http://")
    for option, is_given in (("--model", question.model is not None), ("--shape", bool(question.shapes))):
        if is_given:
            raise ConfigurationError(f"{option}: means nothing to {named.url.shown}, a plain request; leave it out")
    notes = list(template.notes)
    contents = _contents(template, question, notes)
    corpus = sampled_corpus((_made(template, question, content) for content in contents), notes)
    if not any(payload.spot for payload in corpus.payloads):
        count = len(corpus.payloads)
        notes.append(
            f"no request can be made unique: {'one is sent' if count == 1 else f'{count} are sent'} again and again"
        )
    first = corpus.payloads[0].data
    return PreparedTarget(
        endpoint=named.endpoint,
        payloads=corpus.payloads,
        reply=_reply(named.url, first.partition(b"\r\n\r\n")[2], question.expect or ""),
        target=named.told("http", None, None, None),
        source=_source(template, question),
        sha256=corpus.sha256,
        notes=tuple(notes),
        headers=overlaid(template.headers, named.headers),
        is_head=first.startswith(b"HEAD "),
    )


def _source(template: _Template, question: TargetQuestion) -> str:
    if question.data is not None:
        return f"samples in {question.data}"
    return "--body" if question.body is not None else template.source


def _template(question: TargetQuestion) -> _Template:
    if question.curl is not None:
        return _from_curl(question, question.curl)
    if question.openapi is not None:
        return _from_openapi(question, question.openapi)
    return _Template(named_target(question), None, (), (), "the URL alone", ())


def _from_curl(question: TargetQuestion, line: str) -> _Template:
    curl = read_curl(line)
    if curl.url and question.url:
        raise ConfigurationError(f"--curl: the command names {curl.url}; leave {question.url} out")
    if not curl.url and not question.url:
        raise ConfigurationError("--curl: the command names no URL; paste the whole command")
    named = named_target(
        msgspec.structs.replace(
            question,
            url=curl.url or question.url,
            insecure=curl.insecure or question.insecure,
            ca_file=question.ca_file or curl.ca_file,
        )
    )
    bodies = (curl.body,) if curl.body else ()
    return _Template(named, curl.method, curl.headers, bodies, "the curl command", curl.notes)


def _from_openapi(question: TargetQuestion, source: str) -> _Template:
    is_url = source.startswith(("http://", "https://"))
    data = _fetched(question, source) if is_url else read_file(Path(source))
    example = example_request(read_document(data, source), question.operation)
    base = joined_base(example.base, source) if is_url else example.base
    if question.url:
        own = TargetUrl.read(question.url)
        # The path before the document's paths is the document's to say, unless the user says it.
        base = own.base + (own.path or TargetUrl.read(base).path if base.startswith("http") else own.path or base)
    elif not base.startswith("http"):
        raise ConfigurationError(f"--openapi {source}: the document does not say where its server is; name the URL")
    named = named_target(msgspec.structs.replace(question, url=base.rstrip("/") + example.path))
    told = question.operation or f"{example.method} {example.path}"
    return _Template(named, example.method, example.headers, example.bodies, f"{told} in {source}", example.notes)


def _fetched(question: TargetQuestion, source: str) -> bytes:
    named = named_target(msgspec.structs.replace(question, url=source))
    request = HttpRequest("GET", named.url, named.headers)
    answer = named.patience.ask(
        lambda: exchange(named.endpoint, request.head(), question.timeout_s), lambda answer: answer.status == NOT_READY
    )
    if not 200 <= answer.status < 300:
        raise http_refusal(f"--openapi {source}", answer)
    return answer.body


def _contents(template: _Template, question: TargetQuestion, notes: list[str]) -> Iterator[_Content]:
    """Bodies, and what they are as far as they tell."""
    if question.body is not None:
        yield _Content(question.body.encode(), _type_of(question.body))
        return
    if question.data is None:
        for body in template.bodies or (b"",):
            yield _Content(body, None)
        return
    for path in data_files(question.data):
        if path.suffix in JSON_SUFFIXES:
            samples = list(json_samples(path))
            if path.suffix == ".json" and len(samples) != 1:
                notes.append(f"{path}: each of the {len(samples)} items of its list is a body")
            for sample in samples:
                yield _Content(sample.content, "application/json")
        else:
            yield _Content(read_file(path), guess_type(path.name)[0] or "application/octet-stream")


def _type_of(body: str) -> str:
    try:
        orjson.loads(body)
    except orjson.JSONDecodeError:
        return "text/plain; charset=utf-8"
    return "application/json"


def _made(template: _Template, question: TargetQuestion, content: _Content) -> Made:
    method = question.method or template.method or ("POST" if content.body else "GET")
    own: Headers = (("Content-Type", content.media_type),) if content.media_type else ()
    headers = overlaid(overlaid(own, template.headers), template.named.headers)
    spot = number_spot(content.body) if content.body[:1] in (b"{", b"[") else None
    request = HttpRequest(method, template.named.url, headers, content.body, spot)
    return Made(request.payload(), request.identity())


def _reply(url: TargetUrl, body: bytes, expect: str) -> ReplyRule:
    """An answer is read as a stream where the request asks for one."""
    if url.path.endswith(_STREAM_ROUTE):
        return reply_rule("", expect, stream=True)
    protocol = url_kind(url).protocol
    if protocol in OPENAI_PROTOCOLS:
        try:
            document = orjson.loads(body)
        except orjson.JSONDecodeError:
            document = None
        if isinstance(document, dict) and document.get("stream") is True:
            return reply_rule(protocol, expect, stream=True)
    return reply_rule("", expect, stream=False)
