"""Bodies for OpenAI's routes, and how their streams are read."""

from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from guepard.bench.targets.openai_requests import default_fields, generated_body, reply_rule, sampled_bodies
from guepard.core.errors import ConfigurationError
from guepard.measure.load.corpus import unique_maker
from guepard.measure.load.event_stream import EventStream, StreamRule

CHAT, COMPLETIONS, EMBEDDINGS = "openai-chat", "openai-completions", "openai-embeddings"


@pytest.mark.parametrize("protocol", [CHAT, COMPLETIONS, EMBEDDINGS])
def test_a_generated_prompt_begins_with_a_number_that_can_be_rewritten(protocol: str) -> None:
    fields = default_fields(protocol, "m", None)
    body = generated_body(protocol, fields, np.random.default_rng(1), 7)
    assert body.spot is not None
    document = orjson.loads(unique_maker(body.data, body.spot)(123))
    prompt = {
        CHAT: lambda: document["messages"][0]["content"],
        COMPLETIONS: lambda: document["prompt"],
        EMBEDDINGS: lambda: document["input"],
    }[protocol]()
    assert prompt.startswith("00000123 ")
    assert len(prompt.split()) == 33
    assert document["model"] == "m"
    assert document.get("stream") is (None if protocol == EMBEDDINGS else True)


def test_a_user_s_fields_are_laid_over() -> None:
    fields = default_fields(CHAT, "m", '{"max_tokens": 5, "stream": false, "temperature": 0}')
    assert fields == {"model": "m", "stream": False, "max_tokens": 5, "temperature": 0}
    with pytest.raises(ConfigurationError, match="--body: not valid JSON"):
        default_fields(CHAT, "m", "{")


def read(protocol: str, name: str, content: str, folder: Path) -> list[dict[str, Any]]:
    path = folder / name
    path.write_text(content)
    return [orjson.loads(body.data) for body in sampled_bodies(protocol, {"model": "m"}, path)]


def test_samples_of_chats(tmp_path: Path) -> None:
    def asked(text: str) -> dict[str, Any]:
        return {"model": "m", "messages": [{"role": "user", "content": text}]}

    assert read(CHAT, "a.txt", "one\n\ntwo\n", tmp_path) == [asked("one"), asked("two")]
    lines = '"one"\n[{"role":"user","content":"two"}]\n{"prompt":"three"}\n{"messages":[],"model":"n"}'
    assert read(CHAT, "a.jsonl", lines, tmp_path) == [
        asked("one"),
        asked("two"),
        asked("three"),
        {"model": "n", "messages": []},
    ]
    conversation = '[{"role":"system","content":"s"},{"role":"user","content":"u"}]'
    assert [len(body["messages"]) for body in read(CHAT, "a.json", conversation, tmp_path)] == [2]
    assert len(read(CHAT, "a.json", '["one", "two"]', tmp_path)) == 2


def test_samples_of_other_routes(tmp_path: Path) -> None:
    assert read(COMPLETIONS, "a.txt", "one", tmp_path) == [{"model": "m", "prompt": "one"}]
    assert read(EMBEDDINGS, "a.jsonl", '["a","b"]', tmp_path) == [{"model": "m", "input": ["a", "b"]}]


@pytest.mark.parametrize(
    ("protocol", "name", "content", "named"),
    [
        (COMPLETIONS, "a.jsonl", '{"messages":[]}', "line 1: messages belongs to another route"),
        (EMBEDDINGS, "a.jsonl", '{"prompt":""}', "line 1: prompt belongs to another route"),
        (CHAT, "a.jsonl", "5", "line 1: expected a prompt"),
        (CHAT, "a.jsonl", "{", "line 1: not valid JSON"),
        (CHAT, "a.json", "{", "not valid JSON"),
        (CHAT, "a.csv", "x", r"a\.csv: is not read as prompts"),
    ],
)
def test_wrong_samples(protocol: str, name: str, content: str, named: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=named):
        read(protocol, name, content, tmp_path)


def stream(protocol: str, *events: str) -> tuple[int, bool, bool]:
    reader = EventStream(StreamRule(reply_rule(protocol, "", stream=True)))
    pieces = reader.feed("".join(f"data: {event}\n\n" for event in events).encode())
    return pieces, reader.is_complete, reader.is_broken


def chat(delta: str) -> str:
    return f'{{"id":"1","choices":[{{"index":0,"delta":{delta},"finish_reason":null}}]}}'


def test_pieces_are_events_that_bring_something() -> None:
    assert stream(
        CHAT,
        chat('{"role":"assistant","content":""}'),
        chat('{"content":"Hi"}'),
        chat('{"content":"\\"quoted\\""}'),
        chat('{"role":"assistant", "reasoning_content": "hm"}'),
        chat('{"reasoning":"hm","content":null}'),
        chat('{"tool_calls":[{"index":0,"function":{"name":"f","arguments":""}}]}'),
        chat("{}"),
        '{"id":"1","choices":[],"usage":{"total_tokens":5}}',
        "[DONE]",
    ) == (5, True, False)
    assert stream(COMPLETIONS, '{"choices":[{"text":"a"}]}', '{"choices":[{"text":""}]}', "[DONE]") == (1, True, False)


@pytest.mark.parametrize("event", ['{"error":{"message":"m"}}', ' {"error": "m"}', '{"object":"error","message":"m"}'])
def test_errors_break_a_stream(event: str) -> None:
    assert stream(CHAT, chat('{"content":"Hi"}'), event, "[DONE]") == (1, False, True)


def test_no_error_and_no_end() -> None:
    assert stream(CHAT, '{"error":null,"choices":[{"delta":{"content":"error"}}]}') == (1, False, False)


def test_what_a_stream_holds_is_not_searched() -> None:
    with pytest.raises(ConfigurationError, match="--expect"):
        reply_rule(CHAT, "x", stream=True)
    assert reply_rule(CHAT, "x", stream=False).expect == "x"
