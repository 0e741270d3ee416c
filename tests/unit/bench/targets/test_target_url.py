"""URLs taken apart, and what their paths say."""

import pytest

from guepard.bench.targets.target_url import TargetUrl
from guepard.bench.targets.url_kind import UrlKind, openai_path, url_kind
from guepard.core.errors import ConfigurationError


@pytest.mark.parametrize(
    ("text", "authority", "target", "tls"),
    [
        ("http://h", "h", "/", False),
        ("h:8000", "h:8000", "/", False),
        ("localhost:8000/v2", "localhost:8000", "/v2", False),
        ("HTTPS://Host:443/a?b=c#d", "host", "/a?b=c", True),
        ("http://[::1]:81/x", "[::1]:81", "/x", False),
        ("grpcs://h:8001/m", "h:8001", "/m", True),
        ("http://h/wörter", "h", "/w%C3%B6rter", False),
        ("http://h/a%2Fb?q=%20", "h", "/a%2Fb?q=%20", False),
    ],
)
def test_parts(text: str, authority: str, target: str, tls: bool) -> None:
    url = TargetUrl.read(text)
    assert (url.authority, url.target, url.tls) == (authority, target, tls)


def test_credentials_are_read_and_never_shown() -> None:
    url = TargetUrl.read("https://me:p%40ss@h:8443/p?q=1")
    assert (url.user, url.password) == ("me", "p@ss")
    assert url.shown == "https://h:8443/p?q=1"
    assert TargetUrl.read("http://h").user is None


def test_secrets_in_a_query_are_sent_and_not_shown() -> None:
    url = TargetUrl.read("https://h/p?api_key=sesame&q=1")
    assert url.query == "api_key=sesame&q=1"
    assert url.shown == "https://h/p?api_key=[hidden]&q=1"


def test_a_host_beyond_ascii_is_asked_for_by_its_wire_name() -> None:
    assert TargetUrl.read("http://bücher.example").host == "xn--bcher-kva.example"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "expected a URL"),
        ("http://h /x", "without blanks"),
        ("http://h\r\nX: y", "without blanks"),
        ("ftp://h", "ftp is not measured"),
        ("http://", "no host"),
        ("http://h:99999", "no URL"),
        ("http://h:x", "no URL"),
        ("http://h:0", "port 0"),
        ("http://[::1", "no URL"),
        ("grpc://h", "no port"),
    ],
)
def test_refusals(text: str, named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        TargetUrl.read(text)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("http://h", UrlKind(None, is_bare=True)),
        ("http://h/", UrlKind(None, is_bare=True)),
        ("http://h/?q=1", UrlKind(None)),
        ("http://h/predict", UrlKind(None, "/predict")),
        ("http://h/v2", UrlKind("oip-json")),
        ("http://h/v2/models/a%20b", UrlKind("oip-json", "", "a b")),
        ("http://h/gate/v2/models/a/versions/3/infer", UrlKind("oip-json", "/gate", "a", "3")),
        ("http://h/v2/models/a/stats", UrlKind(None, "/v2/models/a/stats")),
        ("http://h/v1/models/a:predict", UrlKind("predict", "", "a")),
        ("http://h/v1/models/a/versions/3:predict", UrlKind("predict", "", "a", "3")),
        ("http://h/v1/chat/completions", UrlKind("openai-chat", "/v1")),
        ("http://h/v1/completions", UrlKind("openai-completions", "/v1")),
        ("http://h/openai/v1/embeddings", UrlKind("openai-embeddings", "/openai/v1")),
        ("grpc://h:8001", UrlKind("oip-grpc")),
        ("grpc://h:8001/m", UrlKind("oip-grpc", "", "m")),
        ("grpc://h:8001/m/versions/3", UrlKind("oip-grpc", "", "m", "3")),
    ],
)
def test_kinds(text: str, kind: UrlKind) -> None:
    assert url_kind(TargetUrl.read(text)) == kind


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("http://h", "/v1/chat/completions"),
        ("http://h/v1", "/v1/chat/completions"),
        ("http://h/v1/", "/v1/chat/completions"),
        ("http://h/openai", "/openai/v1/chat/completions"),
        ("http://h/api/v3/chat/completions", "/api/v3/chat/completions"),
        ("http://h/chat/completions", "/chat/completions"),
    ],
)
def test_where_chats_go(text: str, path: str) -> None:
    assert openai_path("openai-chat", url_kind(TargetUrl.read(text))) == path
