"""No secret of a command line reaches a file that others read."""

import pytest

from guepard.settings.command_words import without_secrets


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["--header", "Authorization: Bearer s3cret"], ["--header", "Authorization: [hidden]"]),
        (["--header=X-Api-Key: s3cret"], ["--header=X-Api-Key: [hidden]"]),
        (["--header", "cookie:s3cret"], ["--header", "cookie: [hidden]"]),
        (["--header", "Accept: text/html"], ["--header", "Accept: text/html"]),
        (["http://me:s3cret@host/v2"], ["http://[hidden]@host/v2"]),
        (["--compare=http://me:s3cret@host/v2"], ["--compare=http://[hidden]@host/v2"]),
        (["http://host/?api_key=s3cret&page=2"], ["http://host/?api_key=[hidden]&page=2"]),
        (["--rate", "5", "--out", "keys.json"], ["--rate", "5", "--out", "keys.json"]),
        (["--curl", "curl 'unfinished s3cret"], ["--curl", "[hidden]"]),
    ],
)
def test_secrets_are_hidden_and_the_rest_is_not(words: list[str], shown: list[str]) -> None:
    assert without_secrets(words) == tuple(shown)


@pytest.mark.parametrize(
    "command",
    [
        "curl -H 'Authorization: Bearer s3cret' http://host/path",
        "curl -H'X-Token: s3cret' http://host/path",
        "curl --header='Cookie: a=s3cret' http://host/path",
        "curl -u me:s3cret http://host/path",
        "curl -ume:s3cret http://host/path",
        "curl --user=me:s3cret -b session=s3cret http://host/path",
        "curl 'http://me:s3cret@host/path?access_token=s3cret'",
    ],
)
def test_a_curl_command_keeps_no_secret(command: str) -> None:
    for words in (["--curl", command], [f"--curl={command}"]):
        shown = " ".join(without_secrets(words))
        assert "s3cret" not in shown
        assert "host/path" in shown
