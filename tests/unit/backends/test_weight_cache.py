"""Copies of models on disk: whole or not there, found again, never wrong, and not too many."""

import json
import os
import shutil
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from guepard.backends import weight_cache
from guepard.backends.file_stamp import stamp
from guepard.backends.weight_cache import Copy, Source, WeightCache

SIZE = 1_000


class Workshop:
    """A cache in a folder, models beside it, and a count of the copies that were made."""

    def __init__(self, tmp_path: Path, max_bytes: int = 1 << 30) -> None:
        self.folder = tmp_path / "weights"
        self.folder.mkdir(exist_ok=True)
        self.models = tmp_path
        self.cache = WeightCache(self.folder, max_bytes)
        self.made: list[Path] = []

    def source(self, content: bytes = b"a model", recipe: str = "cpu 1", name: str = "model.onnx") -> Source:
        file = self.models / name
        if not file.exists() or file.read_bytes() != content:
            file.write_bytes(content)
        return Source([file], recipe)

    def make(self, source: Source) -> Copy:
        return self.cache.make(source, SIZE, self.write)

    def write(self, folder: Path) -> None:
        self.made.append(folder)
        (folder / "weights.bin").write_bytes(os.urandom(SIZE))

    def copies(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir() if not path.suffix)

    def leftovers(self) -> list[Path]:
        return [path for path in self.folder.iterdir() if path.suffix == ".partial"]


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path)


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that were just written count as written long ago."""
    monkeypatch.setattr(weight_cache, "is_settled", lambda files: True)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Files whose content was read to compare it."""
    read: list[Path] = []
    real = weight_cache._checksum

    def checksum(file: Path) -> int:
        read.append(file)
        return real(file)

    monkeypatch.setattr(weight_cache, "_checksum", checksum)
    return read


class TestFinding:
    def test_nothing_is_found_before_something_was_made(self, workshop: Workshop) -> None:
        assert workshop.cache.find(workshop.source()) is None

    def test_what_was_made_is_found_again_and_not_made_again(self, workshop: Workshop) -> None:
        made = workshop.make(workshop.source())
        found = workshop.cache.find(workshop.source())
        assert found is not None
        assert found.folder == made.folder == workshop.make(workshop.source()).folder
        assert (found.folder / "weights.bin").stat().st_size == SIZE
        assert len(workshop.made) == 1

    def test_the_same_model_elsewhere_has_the_same_copy(self, workshop: Workshop) -> None:
        made = workshop.make(workshop.source())
        found = workshop.cache.find(workshop.source(name="moved.onnx"))
        assert found is not None
        assert found.folder == made.folder

    @pytest.mark.parametrize("other", [{"content": b"a mode1"}, {"content": b"longer model"}, {"recipe": "cpu 2"}])
    def test_another_model_engine_or_cpu_has_another_copy(self, workshop: Workshop, other: dict[str, str]) -> None:
        workshop.make(workshop.source())
        source = workshop.source(**other)  # type: ignore[arg-type]
        assert workshop.cache.find(source) is None
        workshop.make(source)
        assert len(workshop.copies()) == 2

    def test_every_file_of_a_model_counts(self, workshop: Workshop, tmp_path: Path) -> None:
        keys = set()
        for content in (b"one", b"two"):
            (tmp_path / "weights.data").write_bytes(content)
            workshop.source()
            keys.add(Source([tmp_path / "model.onnx", tmp_path / "weights.data"], "cpu 1").key)
        assert len(keys) == 2

    @pytest.mark.usefixtures("settled")
    def test_what_was_looked_at_is_not_read_again(
        self, workshop: Workshop, reads: list[Path], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        workshop.make(workshop.source())
        reads.clear()
        monkeypatch.setattr(Source, "key", property(lambda self: pytest.fail("the model was read")))
        assert workshop.cache.find(workshop.source()) is not None
        assert reads == []

    def test_what_was_written_a_moment_ago_is_read_each_time(self, workshop: Workshop, reads: list[Path]) -> None:
        workshop.make(workshop.source())
        reads.clear()
        assert workshop.cache.find(workshop.source()) is not None
        assert [file.name for file in reads] == ["weights.bin"]

    def test_a_cache_that_cannot_be_written_is_still_read(
        self, workshop: Workshop, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        workshop.make(workshop.source())

        def refuse(*_: object, **__: object) -> None:
            raise OSError(30, "Read-only file system")

        monkeypatch.setattr(Path, "write_text", refuse)
        monkeypatch.setattr(os, "utime", refuse)
        assert workshop.cache.find(workshop.source()) is not None


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[SIZE // 2] ^= 1
    times = file.stat()
    file.chmod(0o600)
    file.write_bytes(content)
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


def truncate(file: Path) -> None:
    file.chmod(0o600)
    os.truncate(file, SIZE // 2)


def replace_by_link(file: Path) -> None:
    file.rename(file.with_name("elsewhere"))
    file.symlink_to("elsewhere")


def spoil_manifest(file: Path) -> None:
    manifest = file.with_name("manifest.json")
    content = json.loads(manifest.read_bytes())
    manifest.write_text(json.dumps(content | {"files": 3}))


class TestDamage:
    @pytest.mark.parametrize("damage", [flip, truncate, Path.unlink, replace_by_link, spoil_manifest])
    @pytest.mark.usefixtures("settled")
    def test_a_damaged_copy_is_removed_and_made_anew(
        self, workshop: Workshop, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
    ) -> None:
        made = workshop.make(workshop.source())
        before = (made.folder / "weights.bin").read_bytes()
        while stamp([made.folder / "weights.bin"])[1][3] >= time.time_ns() - 20_000_000:
            pass  # until the kernel's clock has ticked: what happens within a tick is what `is_settled` is for
        damage(made.folder / "weights.bin")
        assert workshop.cache.find(workshop.source()) is None
        assert "damaged" in caplog.text
        assert workshop.copies() == []
        again = workshop.make(workshop.source())
        assert (again.folder / "weights.bin").read_bytes() != before
        assert workshop.leftovers() == []

    def test_what_is_mapped_is_not_to_be_written(self, workshop: Workshop) -> None:
        copy = workshop.make(workshop.source())
        assert stat.S_IMODE((copy.folder / "weights.bin").stat().st_mode) == 0o400

    def test_of_two_that_find_it_damaged_the_second_spares_what_the_first_has_made(self, workshop: Workshop) -> None:
        first, second = (workshop.make(workshop.source()) for _ in range(2))
        workshop.cache.discard(first)
        made = workshop.make(workshop.source())
        workshop.cache.discard(second)
        assert workshop.copies() == [made.folder.name]
        assert workshop.leftovers() == []

    @pytest.mark.usefixtures("settled")
    def test_after_a_boot_everything_is_read_once(
        self, workshop: Workshop, reads: list[Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        workshop.make(workshop.source())
        (tmp_path / "boot_id").write_text("another")
        monkeypatch.setattr("guepard.backends.file_stamp._BOOT_ID", tmp_path / "boot_id")
        reads.clear()
        for _ in range(2):
            assert workshop.cache.find(workshop.source()) is not None
        assert [file.name for file in reads] == ["weights.bin"]

    def test_a_copy_without_a_manifest_is_no_copy(self, workshop: Workshop) -> None:
        made = workshop.make(workshop.source())
        made.release()
        (made.folder / "manifest.json").unlink()
        assert workshop.cache.find(workshop.source()) is None


class TestMaking:
    def test_a_failure_leaves_nothing(self, workshop: Workshop) -> None:
        def fail(folder: Path) -> None:
            (folder / "weights.bin").write_bytes(b"half")
            raise ArithmeticError

        with pytest.raises(ArithmeticError):
            workshop.cache.make(workshop.source(), SIZE, fail)
        assert workshop.copies() == []
        assert workshop.leftovers() == []

    def test_what_a_maker_left_that_died_is_removed_by_the_next(self, workshop: Workshop) -> None:
        source = workshop.source()
        dead = workshop.folder / f"{source.key}.abc.partial"
        other = workshop.folder / "0123.abc.partial"
        for folder in (dead, other):
            folder.mkdir()
            (folder / "weights.bin").write_bytes(b"half")
        workshop.make(source)
        assert workshop.leftovers() == []

    def test_what_a_maker_writes_that_lives_is_left_alone(self, workshop: Workshop) -> None:
        first, second = workshop.source(), workshop.source(b"another", name="b.onnx")
        seen = []

        def write(folder: Path) -> None:
            workshop.make(second)
            seen.append(folder.exists())
            workshop.write(folder)

        workshop.cache.make(first, SIZE, write)
        assert seen == [True]
        assert len(workshop.copies()) == 2

    def test_of_several_one_makes_the_copy_and_the_others_wait_for_it(self, workshop: Workshop) -> None:
        begun, go_on = threading.Event(), threading.Event()
        source = workshop.source()

        def slowly(folder: Path) -> None:
            begun.set()
            assert go_on.wait(30)
            workshop.write(folder)

        found: list[Copy] = []
        makers = [
            threading.Thread(target=lambda: found.append(workshop.cache.make(source, SIZE, slowly))) for _ in range(3)
        ]
        for maker in makers:
            maker.start()
        assert begun.wait(30)
        go_on.set()
        for maker in makers:
            maker.join(30)
        assert len({copy.folder for copy in found}) == 1
        assert len(found) == 3
        assert len(workshop.made) == 1

    def test_nobody_waits_for_ever_for_a_maker_that_hangs(
        self, workshop: Workshop, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(weight_cache, "_LOCK_PATIENCE_S", 0.0)
        source = workshop.source()
        with workshop.cache._making(source.key), pytest.raises(TimeoutError):
            workshop.make(source)

    def test_a_model_that_changes_meanwhile_has_no_copy(self, workshop: Workshop) -> None:
        source = workshop.source()

        def write(folder: Path) -> None:
            workshop.write(folder)
            workshop.source(b"another model")

        with pytest.raises(OSError, match="changed while"):
            workshop.cache.make(source, SIZE, write)
        assert workshop.copies() == []


class TestRoom:
    """A copy takes 1,000 bytes and some for its manifest; room is for two of them."""

    @pytest.fixture
    def workshop(self, tmp_path: Path) -> Workshop:
        return Workshop(tmp_path, max_bytes=3 * SIZE)

    def make(self, workshop: Workshop, number: int) -> Copy:
        copy = workshop.make(workshop.source(f"model {number}".encode(), name=f"{number}.onnx"))
        os.utime(copy.folder, ns=(number, number))
        return copy

    def test_the_copy_goes_that_was_not_used_for_longest(self, workshop: Workshop) -> None:
        first, second = self.make(workshop, 1), self.make(workshop, 2)
        first.release()
        second.release()
        found = workshop.cache.find(workshop.source(b"model 1", name="1.onnx"))
        assert found is not None
        found.release()
        third = self.make(workshop, 3)
        assert workshop.copies() == sorted([first.folder.name, third.folder.name])
        assert workshop.leftovers() == []

    def test_a_copy_in_use_stays_and_the_next_one_goes(self, workshop: Workshop) -> None:
        first, second = self.make(workshop, 1), self.make(workshop, 2)
        second.release()
        third = self.make(workshop, 3)
        assert workshop.copies() == sorted([first.folder.name, third.folder.name])

    def test_when_all_are_in_use_there_is_no_room(self, workshop: Workshop) -> None:
        copies = [self.make(workshop, 1), self.make(workshop, 2)]
        with pytest.raises(OSError, match="no room"):
            self.make(workshop, 3)
        assert len(workshop.copies()) == len(copies)

    def test_a_disk_that_is_nearly_full_is_left_alone(
        self, workshop: Workshop, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        usage = shutil.disk_usage(workshop.folder)
        monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=SIZE))
        with pytest.raises(OSError, match="no room"):
            self.make(workshop, 1)

    def test_a_folder_without_a_manifest_makes_room_as_well(self, workshop: Workshop) -> None:
        strange = workshop.folder / "strange"
        strange.mkdir()
        (strange / "file").write_bytes(bytes(3 * SIZE))
        made = self.make(workshop, 1)
        assert workshop.copies() == [made.folder.name]
