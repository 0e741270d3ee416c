"""Files that were written are noticed, however they are dressed up."""

import os
import time
from pathlib import Path

import pytest

from guepard.backends import file_stamp
from guepard.backends.file_stamp import is_settled, stamp


def test_a_file_that_nobody_wrote_keeps_its_stamp(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"abc")
    before = stamp([file])
    file.read_bytes()
    assert stamp([file]) == before


def test_other_content_of_the_same_size_and_age_has_another_stamp(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"abc")
    before, times = stamp([file]), file.stat()
    while stamp([file]) == before:  # until the kernel's clock has ticked
        file.write_bytes(b"abd")
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert file.stat().st_mtime_ns == times.st_mtime_ns


def test_a_stamp_says_nothing_after_a_boot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"abc")
    before = stamp([file])
    (tmp_path / "boot_id").write_text("another\n")
    monkeypatch.setattr(file_stamp, "_BOOT_ID", tmp_path / "boot_id")
    assert stamp([file]) != before


def test_a_link_in_the_place_of_a_file_has_no_stamp(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    (tmp_path / "link").symlink_to("file")
    with pytest.raises(OSError, match="not a regular file"):
        stamp([tmp_path / "link"])


def test_a_file_is_settled_when_its_last_change_is_a_while_ago(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"abc")
    changed = file.stat().st_ctime_ns
    monkeypatch.setattr(time, "time_ns", lambda: changed + 1_000_000_000)
    assert not is_settled([file])
    monkeypatch.setattr(time, "time_ns", lambda: changed + 3_000_000_000)
    assert is_settled([file])


def test_nothing_is_settled_where_boots_cannot_be_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"abc")
    monkeypatch.setattr(file_stamp, "_BOOT_ID", tmp_path / "missing")
    monkeypatch.setattr(time, "time_ns", lambda: 2**62)
    assert not is_settled([file])
