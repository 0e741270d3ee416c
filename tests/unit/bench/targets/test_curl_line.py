"""Pasted curl commands: what a shell and curl would make of them, and what is refused by name."""

from pathlib import Path

import pytest

from guepard.bench.targets.curl_line import CurlRequest, read_curl
from guepard.core.errors import ConfigurationError


def header(request: CurlRequest, name: str) -> str | None:
    return next((value for key, value in request.headers if key.lower() == name), None)


def test_the_line_that_the_server_prints() -> None:
    request = read_curl("""curl -s http://127.0.0.1:8000/v2/models/m/infer -d '{"inputs": [1, "it'\\''s"]}'""")
    assert (request.method, request.url) == ("POST", "http://127.0.0.1:8000/v2/models/m/infer")
    assert request.body == b'{"inputs": [1, "it\'s"]}'
    assert header(request, "content-type") == "application/x-www-form-urlencoded"
    assert request.notes == ()


def test_a_browser_s_copy_with_continuations_and_ansi_quotes() -> None:
    request = read_curl(
        "curl 'https://api.example/v1/predict' \\\n  -H 'accept: */*' \\\r\n  -H 'accept-encoding: gzip, br' \\\n"
        "  -H 'content-type: application/json' -H 'content-length: 9' -H 'cookie: a=b; c=d' \\\n"
        '  --data-raw $\'{"text":"don\\\'t \\u0021 \\x41\\n"}\' --compressed --insecure'
    )
    assert request.body.decode() == '{"text":"don\'t ! A\n"}'
    assert header(request, "content-type") == "application/json"
    assert header(request, "cookie") == "a=b; c=d"
    assert header(request, "accept-encoding") is None
    assert header(request, "content-length") is None
    assert request.insecure
    assert len(request.notes) == 3


@pytest.mark.parametrize(
    ("line", "method", "body"),
    [
        ("curl http://h", "GET", b""),
        ("curl -I http://h", "HEAD", b""),
        ("curl -XPUT http://h", "PUT", b""),
        ("curl -X DELETE http://h -d x", "DELETE", b"x"),
        ("curl --request=PUT http://h", None, None),
        ("curl http://h -d a=1 -d b=2", "POST", b"a=1&b=2"),
        ("curl http://h --data-raw @no", "POST", b"@no"),
        ("curl http://h -d ''", "POST", b""),
        ("curl http://h --data-urlencode 'q=a b&c' --data-urlencode '=x/y' --data-urlencode z", "POST",
         b"q=a+b%26c&x%2Fy&z"),
        ("curl http://h -sSLkd x", "POST", b"x"),
        ("curl http://h -sSLkdx", "POST", b"x"),
        ("curl -- http://h", "GET", b""),
        ("curl --url http://h # the server", "GET", b""),
        ("/usr/bin/curl http://h", "GET", b""),
        ('curl http://h -d "costs 5$, \\"\\$HOME\\" \\n"', "POST", b'costs 5$, "$HOME" \\n'),
    ],
)  # fmt: skip
def test_method_and_body(line: str, method: str | None, body: bytes | None) -> None:
    if method is None:
        with pytest.raises(ConfigurationError, match="word of its own"):
            read_curl(line)
        return
    request = read_curl(line)
    assert (request.method, request.body, request.url) == (method, body, "http://h")


def test_get_puts_the_data_into_the_query() -> None:
    assert read_curl("curl -G http://h/s -d q=a%20b -d 'n=1 2'").url == "http://h/s?q=a%20b&n=1%202"
    assert read_curl("curl -G 'http://h/s?x=1' -d q=2").url == "http://h/s?x=1&q=2"


def test_json_says_so_in_both_headers_unless_told_otherwise() -> None:
    request = read_curl("""curl http://h --json '{"a":' --json '1}'""")
    assert request.body == b'{"a":1}'
    assert (header(request, "content-type"), header(request, "accept")) == ("application/json", "application/json")
    told = read_curl("curl http://h --json 1 -H 'Content-Type: application/x-ndjson'")
    assert header(told, "content-type") == "application/x-ndjson"


def test_credentials_agent_referrer_and_cookies() -> None:
    request = read_curl("curl http://h -u me:p:w -A agent/1 -e http://from -b s=1 --cacert ca.pem")
    assert header(request, "authorization") == "Basic bWU6cDp3"
    assert [header(request, name) for name in ("user-agent", "referer", "cookie")] == ["agent/1", "http://from", "s=1"]
    assert request.ca_file == "ca.pem"
    assert header(read_curl("curl http://h --oauth2-bearer t"), "authorization") == "Bearer t"


def test_files_lose_their_line_ends_only_where_curl_takes_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("body.bin").write_bytes(b"a\r\nb\0\n")
    assert read_curl("curl http://h -d @body.bin").body == b"ab"
    assert read_curl("curl http://h --data-binary @body.bin").body == b"a\r\nb\0\n"
    with pytest.raises(ConfigurationError, match=r"@gone\.bin: no such file"):
        read_curl("curl http://h -d @gone.bin")


def test_what_is_passed_over_is_told() -> None:
    request = read_curl("curl -v -o out.json -w '%{http_code}' -m 5 --compressed -L http://h")
    assert [note.split(" ")[0] for note in request.notes] == ["--max-time", "--compressed", "--location"]


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("wget http://h", "begins with curl"),
        ("", "begins with curl"),
        ("curl http://h -F file=@x", "--form.*multipart"),
        ("curl http://h --unix-socket /s", "--unix-socket.*TCP"),
        ("curl http://h -x http://proxy", "--proxy"),
        ("curl http://h --cert c.pem", "--cert.*client certificates"),
        ("curl http://h --frobnicate", "--frobnicate is unknown"),
        ("curl http://h -Q x", "-Q is unknown"),
        ("curl http://h http://i", "one URL"),
        ("curl http://h -d", "-d has no value"),
        ("curl http://h -H", "-H has no value"),
        ("curl http://h -u me", "NAME:PASSWORD"),
        ("curl http://h -b jar.txt", "names a file"),
        ("curl http://h -H @headers.txt", "names a file"),
        ("curl http://h -H 'X-Empty;'", "empty header"),
        ("curl http://h -d @-", "standard input"),
        ("curl http://h --next http://i", "--next"),
        ("curl -H 'A: b' 'http://h", "opened and not closed"),
        ('curl -H "A: $TOKEN" http://h', r"\$TOKEN.*write its value"),
        ("curl http://h/$(date)", r"\$\(date\)"),
        ("curl http://h/`date`", "`date`"),
        ("curl http://h | jq .", r"\| jq .*for a shell"),
        ("curl http://h?a=1&b=2", "quotes around URLs"),
        ("curl http://h -H $'A: b\\r\\nEvil: 1'", "line break"),
    ],
)
def test_refusals_name_what_they_mean(line: str, named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        read_curl(line)
