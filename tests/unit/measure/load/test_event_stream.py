"""Event streams, however they are cut."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from guepard.measure.load.event_stream import EventStream, StreamRule
from guepard.measure.load.plan import ReplyRule

RULE = StreamRule(ReplyRule(events=True, last_event="[DONE]", piece='"content"', error_event='"error"'))
STREAM = (
    ': a comment\n\ndata: {"role": "assistant"}\n\ndata: {"content": "Gué"}\r\n\r\n'
    'event: x\ndata: {\ndata: "content": "pard"}\n\ndata:{"content": "!"}\r\rdata: [DONE]\n\n'
).encode()


@given(st.lists(st.integers(0, len(STREAM))))
def test_pieces_do_not_depend_on_the_cuts(cuts: list[int]) -> None:
    stream = EventStream(RULE)
    edges = [0, *sorted(cuts), len(STREAM)]
    pieces = sum(stream.feed(STREAM[begin:end]) for begin, end in itertools.pairwise(edges))
    assert pieces == 3
    assert stream.is_complete


def test_a_stream_without_its_last_event_is_not_complete() -> None:
    stream = EventStream(RULE)
    assert stream.feed(b'data: {"content": "a"}\n\ndata: [DON') == 1
    assert not stream.is_complete


def test_an_error_event_breaks_the_stream_though_it_ends_well() -> None:
    stream = EventStream(RULE)
    assert stream.feed(b'data: {"content": "a"}\n\ndata: {"error": "out of memory"}\n\ndata: [DONE]\n\n') == 1
    assert stream.is_broken
    assert not stream.is_complete


def test_without_patterns_every_data_event_is_a_piece_and_the_end_is_free() -> None:
    stream = EventStream(StreamRule(ReplyRule(events=True)))
    assert stream.feed(b"data: 1\n\ndata: 2\n\n") == 2
    assert stream.is_complete
