"""Files that came in: once by content, whole or not at all, for their owner's eyes."""

import hashlib
import os
import stat
from pathlib import Path

import pytest

from gateway.store import media
from gateway.store.db.connection import Transaction
from gateway.store.media import MediaFiles
from tests.gateway.store.conftest import Clock


@pytest.fixture
def files(tmp_path: Path) -> MediaFiles:
    return MediaFiles({"image": tmp_path / "image_cache", "file": tmp_path / "caches" / "document_cache"})


def test_a_file_is_named_by_its_content_and_closed_to_others(files: MediaFiles) -> None:
    sha256 = files.save("image", b"pixels")
    assert sha256 == hashlib.sha256(b"pixels").hexdigest()
    saved = files.path("image", sha256)
    assert saved.read_bytes() == b"pixels"
    assert stat.S_IMODE(saved.stat().st_mode) == 0o600
    assert stat.S_IMODE(saved.parent.stat().st_mode) == 0o700


def test_the_same_content_is_kept_once_for_each_kind(files: MediaFiles) -> None:
    first = files.save("image", b"same")
    inode = files.path("image", first).stat().st_ino
    assert files.save("image", b"same") == first
    assert files.path("image", first).stat().st_ino == inode
    assert files.save("file", b"same") == first
    assert files.path("file", first).exists()


def test_an_empty_file_is_a_file(files: MediaFiles) -> None:
    assert files.path("file", files.save("file", b"")).read_bytes() == b""


def test_a_write_that_fails_leaves_nothing(files: MediaFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    folder = files.path("image", "x").parent
    monkeypatch.setattr("gateway.store.media.os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        files.save("image", b"pixels")
    assert list(folder.iterdir()) == []
    monkeypatch.undo()
    assert files.save("image", b"pixels")
    assert len(os.listdir(folder)) == 1


def test_what_is_known_about_a_file_is_kept_once(tx: Transaction) -> None:
    for mime in ("image/png", "text/plain"):
        media.record(tx, sha256="ab", kind="image", mime=mime, size_bytes=7)
    [row] = tx.all("SELECT sha256, kind, mime, size_bytes FROM media")
    assert tuple(row) == ("ab", "image", "image/png", 7)


def test_what_was_saved_again_is_young_again(files: MediaFiles, clock: Clock) -> None:
    """Its row comes only after it: meanwhile it must be taken neither for a stray nor for forgotten."""
    sha256 = files.save("image", b"pixels")
    clock.forward(hours=48)
    a_day_ago = clock.ms - 24 * 3_600_000
    assert files.save("image", b"pixels") == sha256
    assert files.remove_strays((), before_ms=a_day_ago) == 0
    files.remove(sha256, before_ms=a_day_ago)
    assert files.path("image", sha256).exists()
    files.remove(sha256, before_ms=clock.ms + 1)
    assert not files.path("image", sha256).exists()
    files.remove(sha256, before_ms=clock.ms + 1)  # gone already
