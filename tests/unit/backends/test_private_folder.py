"""Where a cache may be kept: nowhere that another user can reach with writing hands."""

import errno
import os
import stat
from pathlib import Path

import pytest

from guepard.backends.private_folder import UnsafeFolder, private_folder


def give_away(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have `path` seem to belong to some other user than this one and root."""
    real = Path.lstat

    def lstat(self: Path) -> os.stat_result:
        found = real(self)
        return os.stat_result((*found[:4], 54_321, *found[5:])) if self == path else found

    monkeypatch.setattr(Path, "lstat", lstat)


def test_what_is_missing_is_made_for_this_user_alone(tmp_path: Path) -> None:
    folder = private_folder(tmp_path / "a" / "b")
    assert [stat.S_IMODE(path.stat().st_mode) for path in (folder, folder.parent)] == [0o700, 0o700]


def test_an_own_folder_that_others_may_enter_is_closed(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o755)
    assert stat.S_IMODE(private_folder(folder).stat().st_mode) == 0o700


@pytest.mark.parametrize("part", ["cache", "cache/weights"])
def test_a_folder_of_another_user_is_refused_wherever_it_is_on_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    (tmp_path / "cache" / "weights").mkdir(parents=True)
    give_away(tmp_path / part, monkeypatch)
    with pytest.raises(UnsafeFolder, match="belongs to another user"):
        private_folder(tmp_path / "cache" / "weights")


def test_a_link_of_another_user_is_not_followed_and_an_own_one_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "cache").symlink_to("disk")
    assert private_folder(tmp_path / "cache" / "weights").is_dir()
    give_away(tmp_path / "cache", monkeypatch)
    with pytest.raises(UnsafeFolder, match="belongs to another user"):
        private_folder(tmp_path / "cache" / "weights")


def test_what_a_link_leads_to_is_judged_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "cache").symlink_to(tmp_path / "disk")
    give_away(tmp_path / "disk", monkeypatch)
    with pytest.raises(UnsafeFolder, match="disk belongs to another user"):
        private_folder(tmp_path / "cache")


def test_links_in_a_circle_end(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(UnsafeFolder, match="too many links"):
        private_folder(tmp_path / "a")


def test_a_folder_that_everybody_may_write_to_is_refused_unless_it_is_sticky(tmp_path: Path) -> None:
    common = tmp_path / "common"
    common.mkdir()
    common.chmod(0o777)
    with pytest.raises(UnsafeFolder, match="everybody may write"):
        private_folder(common / "cache")
    common.chmod(0o1777)
    assert private_folder(common / "cache").is_dir()


def test_a_folder_of_root_is_used_when_nobody_else_may_write_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "cache"
    folder.mkdir()
    found = folder.stat()
    own = os.stat_result((found.st_mode | 0o020, *found[1:]))
    monkeypatch.setattr(Path, "lstat", lambda self: os.stat_result((*found[:4], 0, *found[5:])))
    monkeypatch.setattr(Path, "stat", lambda self, **_: os.stat_result((*own[:4], 54_321, *own[5:])))
    with pytest.raises(UnsafeFolder, match="chmod 700"):
        private_folder(folder)


def test_a_file_in_the_way_is_told(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("")
    with pytest.raises(NotADirectoryError, match="is not a folder"):
        private_folder(tmp_path / "cache" / "weights")


@pytest.mark.parametrize(("mode", "is_taken"), [(0o755, True), (0o775, False)])
def test_a_folder_whose_mode_cannot_be_changed_is_taken_if_only_others_may_read_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, is_taken: bool
) -> None:
    folder = tmp_path / "cache"
    folder.mkdir()
    folder.chmod(mode)

    def chmod(self: Path, mode: int) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "chmod", chmod)
    if is_taken:
        assert private_folder(folder) == folder
    else:
        with pytest.raises(UnsafeFolder, match="may be written by others"):
            private_folder(folder)
