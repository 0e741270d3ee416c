"""Requests are counted right, in whatever pieces they come."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guepard.measure.load.request_counter import RequestCounter

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
POST = b"POST /infer HTTP/1.1\r\nHost: x\r\nContent-Length: 7\r\n\r\n0123456"
HEADS_IN_THE_BODY = b"POST / HTTP/1.1\r\ncontent-LENGTH:\t27 \r\nHost: x\r\n\r\n" + GET
EMPTY = b"POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n"
REQUESTS = (GET, POST, HEADS_IN_THE_BODY, EMPTY)


@given(st.lists(st.sampled_from(REQUESTS), max_size=6), st.lists(st.integers(0, 400), max_size=8))
def test_every_request_is_counted_once_wherever_it_is_cut(requests: list[bytes], cuts: list[int]) -> None:
    data = b"".join(requests)
    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    counter = RequestCounter()
    counts = [counter.count(7, data[start:end]) for start, end in itertools.pairwise(edges)]
    assert sum(counts) == len(requests)
    assert counter.unfinished == {}


@given(st.sampled_from(REQUESTS), st.data())
def test_connections_do_not_disturb_each_other(request: bytes, data: st.DataObject) -> None:
    counter = RequestCounter()
    cut = data.draw(st.integers(1, len(request) - 1))
    assert [counter.count(7, request[:cut]), counter.count(8, POST), counter.count(7, request[cut:])] == [0, 1, 1]


def test_a_head_that_comes_again_need_not_be_read() -> None:
    counter = RequestCounter()
    counter.count(7, POST)
    assert POST.startswith(counter.head)
    assert counter.request_bytes == len(POST)


def test_what_was_unfinished_is_forgotten_with_its_connection() -> None:
    counter = RequestCounter()
    counter.count(7, POST[:-3])
    counter.forget(7)
    assert counter.count(7, POST) == 1


@pytest.mark.parametrize(
    "data",
    [b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", b"GET / HTTP/1.1\r\nX: " + b"a" * 70_000],
    ids=["chunked", "endless head"],
)
def test_a_request_whose_length_cannot_be_told_is_an_error(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"the request has Transfer-Encoding|the head of a request is longer"):
        RequestCounter().count(7, data)
