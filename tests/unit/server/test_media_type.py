"""Which bodies a route reads."""

import pytest

from guepard.core.errors import UnsupportedMediaType
from guepard.server.http.media_type import INFER_TYPES, JSON_TYPES, check_media_type
from guepard.server.http.request_head import RequestHead


def head(content_type: str | None) -> RequestHead:
    return RequestHead("POST", b"/", [] if content_type is None else [(b"content-type", content_type.encode())])


@pytest.mark.parametrize(
    "content_type",
    [
        None,
        "",
        "application/json",
        "APPLICATION/JSON",
        " application/json ; charset=utf-8",
        'application/json; charset="UTF-8"; x=y',
        "application/octet-stream",
    ],
)
def test_json_and_bytes_are_read_everywhere(content_type: str | None) -> None:
    check_media_type(head(content_type), JSON_TYPES)
    check_media_type(head(content_type), INFER_TYPES)


def test_forms_are_read_as_json_for_inference_only() -> None:
    check_media_type(head("application/x-www-form-urlencoded"), INFER_TYPES)
    with pytest.raises(UnsupportedMediaType, match="send application/json"):
        check_media_type(head("application/x-www-form-urlencoded"), JSON_TYPES)


@pytest.mark.parametrize(
    "content_type",
    [
        "text/plain",
        "application/json/x",
        "application/jsonx",
        "application/vnd.bentoml+pickle",
        "application/json; charset=utf-16",
        "*/*",
        ";",
        ",application/json",
        "text/html, application/json",
    ],
)
def test_others_are_named_in_the_refusal(content_type: str) -> None:
    with pytest.raises(UnsupportedMediaType, match="Content-Type"):
        check_media_type(head(content_type), INFER_TYPES)
