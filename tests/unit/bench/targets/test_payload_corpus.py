"""Which of the payloads that were made are kept."""

from collections.abc import Callable, Iterable
from itertools import count

import pytest

from guepard.bench.targets import payload_corpus
from guepard.bench.targets.payload_corpus import Made, PayloadCorpus, generated_corpus, sampled_corpus
from guepard.measure.load.plan import Payload


def made(text: str) -> Made:
    return Made(Payload(data=f"to one host: {text}".encode()), text.encode())


def test_generated_ones_are_distinct() -> None:
    notes: list[str] = []
    corpus = generated_corpus((made(str(number % 7)) for number in count()), 5, notes)
    assert [payload.data[-1:] for payload in corpus.payloads] == [b"0", b"1", b"2", b"3", b"4"]
    assert notes == []


def test_where_there_are_not_as_many_it_ends_and_says_so() -> None:
    notes: list[str] = []
    assert len(generated_corpus((made(str(number % 2)) for number in count()), 5, notes).payloads) == 2
    assert notes == ["only 2 different requests were found for inputs this small"]


def test_samples_are_kept_as_often_as_they_are_there() -> None:
    assert len(sampled_corpus(map(made, "abca"), []).payloads) == 4


Keep = Callable[[Iterable[Made], list[str]], PayloadCorpus]


@pytest.mark.parametrize("make", [lambda every, notes: generated_corpus(every, 9, notes), sampled_corpus])
def test_memory_is_bounded_but_one_is_always_kept(make: Keep, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payload_corpus, "CORPUS_BYTES", 30)
    notes: list[str] = []
    assert len(make(map(made, "abc"), notes).payloads) == 2
    assert notes
    assert notes[0].startswith("2 requests are used instead of ")
    monkeypatch.setattr(payload_corpus, "CORPUS_BYTES", 1)
    assert len(make(map(made, "abc"), notes).payloads) == 1


def test_the_hash_is_of_what_is_asked_and_of_its_order() -> None:
    def digest(text: str, host: str = "") -> str:
        return sampled_corpus((Made(Payload(data=host.encode()), one.encode()) for one in text.split()), []).sha256

    assert digest("a bc") == digest("a bc", "another host")
    assert len({digest("a bc"), digest("ab c"), digest("bc a")}) == 3
