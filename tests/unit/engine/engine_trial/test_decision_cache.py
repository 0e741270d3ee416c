"""Decisions on disk: found again, and worth nothing when anything is wrong with them."""

import os
from pathlib import Path

import pytest

from guepard.engine.engine_trial import decision_cache
from guepard.engine.engine_trial.decision import Candidate, Decision, decide
from guepard.engine.engine_trial.decision_cache import DecisionCache, FileDigest

WON = decide(
    "onnxruntime",
    [
        Candidate(
            engine="openvino",
            precision="bf16",
            row_ns=1,
            reference_row_ns=3,
            ratio=3.0,
            cosine=0.9999,
            top1=1.0,
            load_ns=5,
        ),
        Candidate(engine="openvino", precision="f32", rejected="it raised"),
    ],
    7,
)


@pytest.fixture
def cache(tmp_path: Path) -> DecisionCache:
    return DecisionCache(tmp_path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "engines"


def test_what_is_kept_is_found(cache: DecisionCache, tmp_path: Path) -> None:
    assert cache.is_empty
    cache.keep("key", WON)
    assert not cache.is_empty
    assert DecisionCache(tmp_path).find("key") == WON
    assert cache.find("other") is None


def test_it_lies_in_a_folder_of_this_users(cache: DecisionCache, folder: Path) -> None:
    cache.keep("key", WON)
    assert folder.stat().st_mode & 0o777 == 0o700


def test_what_is_forgotten_is_gone(cache: DecisionCache) -> None:
    cache.keep("key", WON)
    cache.forget("key")
    cache.forget("key")
    assert cache.find("key") is None


def test_digests_are_kept_beside_them(cache: DecisionCache) -> None:
    digest = FileDigest(["boot", [1, 2]], "abc")
    cache.keep_digest("key", digest)
    assert cache.find_digest("key") == digest
    assert cache.find("key") is None


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"null", b'{"engine": 3}', b"\xff\xfe", b'{"engine": "openvino", "precision": "q4"}']
)
def test_what_cannot_be_read_is_not_there_and_written_anew(
    cache: DecisionCache, folder: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    cache.keep("key", WON)
    (folder / "key.json").write_bytes(content)
    assert cache.find("key") is None
    assert "decided again" in caplog.text
    cache.keep("key", WON)
    assert cache.find("key") == WON


def test_a_folder_in_the_place_of_a_file_is_not_there(cache: DecisionCache, folder: Path) -> None:
    (folder / "key.json").mkdir(parents=True)
    folder.chmod(0o700)
    assert cache.find("key") is None
    cache.keep("key", WON)  # which fails, and says so
    cache.forget("key")


def test_without_a_cache_nothing_is_kept() -> None:
    cache = DecisionCache(None)
    cache.keep("key", WON)
    cache.forget("key")
    assert cache.is_empty
    assert cache.find("key") is None


def test_a_folder_that_cannot_be_made_keeps_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    cache = DecisionCache(tmp_path / "file")
    cache.keep("key", WON)
    assert cache.find("key") is None
    assert "cannot be kept" in caplog.text


def test_a_folder_that_is_read_only_serves_what_it_has(
    cache: DecisionCache, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cache.keep("key", WON)

    def refuse(*_: object) -> None:
        raise PermissionError(30, "Read-only file system")

    monkeypatch.setattr(os, "utime", refuse)
    monkeypatch.setattr(Path, "write_bytes", refuse)
    assert cache.find("key") == WON
    cache.keep("other", WON)
    assert cache.find("other") is None
    assert "Read-only file system" in caplog.text
    assert [file.name for file in folder.iterdir()] == ["key.json"]


def test_the_cache_of_another_user_is_not_believed(cache: DecisionCache, folder: Path) -> None:
    cache.keep("key", WON)
    folder.chmod(0o700)
    folder.parent.chmod(0o777)
    assert cache.find("key") is None


def test_those_that_were_not_used_for_longest_go(
    cache: DecisionCache, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decision_cache, "_MOST_FILES", 2)
    for number, key in enumerate(("a", "b")):
        cache.keep(key, WON)
        os.utime(folder / f"{key}.json", (number, number))
    assert cache.find("a") == WON
    cache.keep("c", WON)
    assert {file.name for file in folder.iterdir()} == {"a.json", "c.json"}


def test_a_decision_is_what_it_was_after_a_round_trip(cache: DecisionCache) -> None:
    cache.keep("key", WON)
    found = cache.find("key")
    assert isinstance(found, Decision)
    assert found.facts(cached=True, duration_ns=1) == WON.facts(cached=True, duration_ns=1)
