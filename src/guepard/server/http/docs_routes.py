"""What the server says of itself: `/openapi.json`, and `/docs`, the page that shows it to people."""

import asyncio
import re
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import orjson

from guepard.core.errors import NotFound
from guepard.engine.background import in_thread
from guepard.engine.data_plane import DataPlane
from guepard.server.documents import Documents
from guepard.server.http.document_endpoint import Document, DocumentRequest, document_route
from guepard.server.http.openapi import describe
from guepard.server.http.operation import Answer, Operation, Tag, answers
from guepard.server.http.response_writer import JSON_TYPE
from guepard.server.http.router import Route

_PAGE = Path(__file__).with_name("docs_page.html")
_INLINE = re.compile(rb"<(style|script)>(.*?)</\1>", re.DOTALL)

_FRESH = b"cache-control: no-cache\r\nx-content-type-options: nosniff\r\n"
_DOCUMENT_HEADERS = JSON_TYPE + _FRESH
_REDIRECT_HEADERS = b"location: docs\r\nvary: accept\r\ncache-control: no-store\r\n"

_DOCUMENTATION = Tag("Documentation", "What this server says of itself.")
_OPENAPI = Operation(
    _DOCUMENTATION,
    "This document",
    answers(
        "An OpenAPI 3.1 document. It names the models that serve now.", {"type": "object", "required": ["openapi"]}
    ),
)
_DOCS = Operation(
    _DOCUMENTATION,
    "This document as a page to read and to try",
    {200: Answer("One page that loads nothing but `/openapi.json`.", {"text/html": {"type": "string"}})},
)
_HOME = Operation(
    _DOCUMENTATION,
    "Leads browsers to `/docs`",
    {
        307: Answer(
            "For callers whose `Accept` names `text/html`.",
            headers={"Location": {"required": True, "schema": {"type": "string", "format": "uri-reference"}}},
        )
    },
    refusals=(404,),
)


class DocsRoutes:
    """`routes` are what is described; it may grow until the first request comes."""

    def __init__(self, routes: Sequence[Route], data_plane: DataPlane, documents: Documents) -> None:
        self._routes = routes
        self._data_plane = data_plane
        self._documents = documents
        self._document = b""
        self._generation = -1  # of the models that `_document` names
        self._writing = asyncio.Lock()
        self._page = _PAGE.read_bytes()
        self._page_headers = page_headers(self._page)

    def routes(self) -> list[Route]:
        return [
            document_route("GET", "/openapi.json", self._openapi, operation=_OPENAPI),
            document_route("GET", "/docs", self._docs, operation=_DOCS),
            document_route("GET", "/", self._home, operation=_HOME),
        ]

    async def _openapi(self, request: DocumentRequest) -> Document:
        async with self._writing:
            generation = self._data_plane.generation
            if generation != self._generation:
                self._document = await in_thread("openapi", self._write)
                self._generation = generation
        return Document(self._document, headers=_DOCUMENT_HEADERS)

    def _write(self) -> bytes:
        return orjson.dumps(describe(self._routes, self._documents.served(), self._documents.questions()))

    def _docs(self, request: DocumentRequest) -> Document:
        return Document(self._page, headers=self._page_headers)

    def _home(self, request: DocumentRequest) -> Document:
        if "text/html" not in (request.head.text(b"accept") or "").lower():
            raise NotFound("no route '/'; the API begins at /v2, /openapi.json describes it")
        return Document(b"", 307, _REDIRECT_HEADERS)


def page_headers(page: bytes) -> bytes:
    """Headers under which a browser runs what is written in `page` and nothing else, and asks only this server."""
    hashes: dict[bytes, list[bytes]] = {b"style": [], b"script": []}
    for kind, text in _INLINE.findall(page):
        hashes[kind].append(b"'sha256-%b'" % b64encode(sha256(text).digest()))
    policy = (
        b"default-src 'none'; style-src %b; script-src %b; connect-src 'self'; img-src data:; "
        b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ) % (b" ".join(hashes[b"style"]), b" ".join(hashes[b"script"]))
    return (
        b"content-type: text/html; charset=utf-8\r\ncontent-security-policy: %b\r\n"
        b"x-frame-options: DENY\r\nreferrer-policy: no-referrer\r\n%b" % (policy, _FRESH)
    )
