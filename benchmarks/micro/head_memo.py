"""`server/http/head_memo.py`."""

from itertools import count

from benchmarks.micro.stage.requests import message
from benchmarks.micro.timing.case import Case
from benchmarks.models import MLP
from benchmarks.serving.payload import json_payload
from guepard.server.http.head_memo import HEAD_END, HeadMemo
from guepard.server.http.request_head import RequestHead


def cases() -> list[Case]:
    memo, numbers = HeadMemo(), count(1_000_000)
    data = message(json_payload(MLP))
    head = RequestHead("POST", b"/v2/models/mlp/infer", [(b"Content-Length", b"300")])
    memo.remember(data, head)

    def look_up() -> None:
        assert memo.get(data[: data.find(HEAD_END) + 4]) is head

    other = HeadMemo()
    return [
        Case("a known head", look_up),
        Case("a new head", lambda: other.remember(data.replace(b"127.0.0.1", b"%d" % next(numbers)), head)),
    ]
