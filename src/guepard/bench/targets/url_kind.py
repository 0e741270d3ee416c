"""What the path of a URL says about the protocol behind it."""

import re
from typing import NamedTuple
from urllib.parse import unquote

from guepard.bench.targets.target_url import TargetUrl

_OIP = re.compile(r"(?P<prefix>.*?)/v2(?:/models/(?P<model>[^/]+)(?:/versions/(?P<version>[^/]+))?(?:/infer)?)?/?")
_PREDICT = re.compile(
    r"(?P<prefix>.*?)/v1/models/(?P<model>[^/:]+)(?:/(?:versions|labels)/(?P<version>[^/:]+))?:predict"
)
_OPENAI = {
    "/chat/completions": "openai-chat",
    "/completions": "openai-completions",
    "/embeddings": "openai-embeddings",
}


class UrlKind(NamedTuple):
    """`prefix`: what stands before the protocol's own path. `protocol` None: the path does not tell.

    `is_bare`: nothing but a host, so that the server has to be asked what it is.
    """

    protocol: str | None
    prefix: str = ""
    model: str | None = None
    version: str | None = None
    is_bare: bool = False


def url_kind(url: TargetUrl) -> UrlKind:
    """What `url` alone tells; nobody is asked."""
    path = url.path
    if url.is_grpc:
        model, _, rest = path.strip("/").partition("/")
        version = rest.removeprefix("versions/") or None
        return UrlKind("oip-grpc", "", unquote(model) or None, version)
    if match := _OIP.fullmatch(path):
        return UrlKind("oip-json", match["prefix"], _plain(match["model"]), _plain(match["version"]))
    if match := _PREDICT.fullmatch(path):
        return UrlKind("predict", match["prefix"], _plain(match["model"]), _plain(match["version"]))
    for ending, protocol in _OPENAI.items():
        if path.endswith(ending):
            return UrlKind(protocol, path.removesuffix(ending))
    bare = path.rstrip("/") == "" and not url.query
    return UrlKind(None, path.rstrip("/"), is_bare=bare)


def openai_path(protocol: str, kind: UrlKind) -> str:
    """Where requests of `protocol` go. A prefix that does not end with a version, such as `/v1`, gets one."""
    ending = next(path for path, name in _OPENAI.items() if name == protocol)
    prefix = kind.prefix
    if kind.protocol not in _OPENAI.values() and not re.search(r"/v\d+$", prefix):
        prefix += "/v1"
    return prefix + ending


def _plain(text: str | None) -> str | None:
    return None if text is None else unquote(text)
