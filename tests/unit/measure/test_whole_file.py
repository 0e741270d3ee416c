"""Files are written whole or not at all."""

import os
import threading
from pathlib import Path

import pytest

from guepard.core.errors import ConfigurationError
from guepard.measure.whole_file import ensure_writable, write_whole


def test_a_new_file_and_an_old_one_hold_what_was_written(tmp_path: Path) -> None:
    for data in (b"first", b"second, longer"):
        write_whole(tmp_path / "result.json", data)
        assert (tmp_path / "result.json").read_bytes() == data
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]


@pytest.mark.parametrize("moment", ["fsync", "replace"])
def test_an_interruption_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    (tmp_path / "result.json").write_bytes(b"old")
    monkeypatch.setattr(os if moment == "fsync" else Path, moment, interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_whole(tmp_path / "result.json", b"new")
    assert (tmp_path / "result.json").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]


def test_the_rights_of_a_file_stay_and_those_of_a_new_one_follow_the_umask(tmp_path: Path) -> None:
    (tmp_path / "shared.json").write_bytes(b"old")
    (tmp_path / "shared.json").chmod(0o664)
    (tmp_path / "plain").write_bytes(b"")
    write_whole(tmp_path / "shared.json", b"new")
    write_whole(tmp_path / "new.json", b"new")
    assert (tmp_path / "shared.json").stat().st_mode & 0o777 == 0o664
    assert (tmp_path / "new.json").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "run-7.json").write_bytes(b"old")
    (tmp_path / "latest.json").symlink_to("run-7.json")
    write_whole(tmp_path / "latest.json", b"new")
    assert (tmp_path / "latest.json").is_symlink()
    assert (tmp_path / "run-7.json").read_bytes() == b"new"


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    ensure_writable(tmp_path / "pipe")
    write_whole(tmp_path / "pipe", b"through")
    reader.join(10)
    assert got == [b"through"]
    assert (tmp_path / "pipe").is_fifo()


def test_what_cannot_be_written_is_told_before_and_after(tmp_path: Path) -> None:
    for path, says in ((tmp_path / "no" / "result.json", "No such file"), (tmp_path, "folder|directory")):
        with pytest.raises(ConfigurationError, match=rf"cannot write {path}: .*({says})"):
            ensure_writable(path)
        with pytest.raises(ConfigurationError, match=f"cannot write {path}"):
            write_whole(path, b"x")


def test_asking_leaves_no_trace(tmp_path: Path) -> None:
    ensure_writable(tmp_path / "result.json")
    assert not list(tmp_path.iterdir())
