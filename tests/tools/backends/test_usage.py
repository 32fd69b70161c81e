"""Folders are measured and deleted however deeply they are nested, and whatever their owner did to hide them."""

import os
from pathlib import Path

import pytest

from tests.privileges import bound_by_file_modes
from tools.backends import usage
from tools.backends.usage import WorkspaceUse, delete_tree


def _nest(top: Path, levels: int, name: str) -> int:
    """Nest folders; return a descriptor of the innermost, whose path may be too long to open."""
    top.mkdir(parents=True, exist_ok=True)
    folder = os.open(top, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir(name, dir_fd=folder)
        inner = os.open(name, os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    return folder


def _write(folder: int, size: int) -> None:
    with open(os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=folder), "wb") as file:
        file.write(bytes(size))
    os.close(folder)


def test_room_is_what_is_left_of_the_workspace(tmp_path: Path) -> None:
    use = WorkspaceUse(folders=(tmp_path, tmp_path / "missing"), max_bytes=100_000)
    assert use.room_bytes() == 100_000
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "file").write_bytes(bytes(40_000))
    (tmp_path / "elsewhere").symlink_to("/usr")
    assert 40_000 <= use.used_bytes() < 60_000
    (tmp_path / "another").write_bytes(bytes(80_000))
    assert use.room_bytes() == 0


def test_a_file_behind_a_path_of_over_4096_characters_counts(tmp_path: Path) -> None:
    _write(_nest(tmp_path / "ws", 30, "n" * 200), 5_000_000)
    try:
        assert 5_000_000 <= WorkspaceUse(folders=(tmp_path / "ws",), max_bytes=10**9).used_bytes() < 6_000_000
    finally:
        delete_tree(tmp_path / "ws")


@pytest.mark.parametrize("hidden_by", ["levels", "number", "permission"])
def test_a_workspace_that_cannot_be_counted_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hidden_by: str
) -> None:
    top = tmp_path / "ws"
    os.close(_nest(top, 2 * usage.MAX_DEPTH if hidden_by == "levels" else 2, "n"))
    if hidden_by == "number":
        monkeypatch.setattr(usage, "MAX_COUNTED_FILES", 1)
    if hidden_by == "permission":
        (top / "n").chmod(0)
    use = WorkspaceUse(folders=(top,), max_bytes=10**9)
    descriptors = len(os.listdir("/proc/self/fd"))
    with bound_by_file_modes():
        assert use.room_bytes() == 0
    assert len(os.listdir("/proc/self/fd")) == descriptors
    delete_tree(top)


def test_a_tree_is_deleted_however_deep_and_nothing_behind_its_links(tmp_path: Path) -> None:
    top, outside = tmp_path / "ws", tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("stays")
    _write(_nest(top, 3_000, "n" * 50), 1)
    (top / "link").symlink_to(outside)
    (top / ("n" * 50) / "link").symlink_to(outside / "file")
    (top / "closed" / "inner").mkdir(parents=True)
    (top / "closed" / "inner").chmod(0)
    (top / "closed").chmod(0)
    with bound_by_file_modes():
        delete_tree(top)
        delete_tree(top)
    assert not top.exists()
    assert (outside / "file").read_text() == "stays"


def test_a_link_in_place_of_a_tree_is_refused(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "ws").symlink_to(tmp_path / "outside")
    with pytest.raises(OSError, match="Not a directory"):
        delete_tree(tmp_path / "ws")
    assert (tmp_path / "outside").exists()
