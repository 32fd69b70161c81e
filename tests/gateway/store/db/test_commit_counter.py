"""The mark beside the database: small, ours, and never a reason to fail."""

import os
import stat
from contextlib import closing
from pathlib import Path

import pytest

from gateway.store.db.commit_counter import CommitCounter, is_sealed, seal
from hermes_config.places import MARK, Home


def test_what_is_written_is_read_by_another(path: Path) -> None:
    mark = CommitCounter(path)
    for commits in (0, 1, 2**40):
        mark.write(commits)
        assert CommitCounter(path).read() == commits
    mark.close()


def test_it_makes_a_home_known_as_ours(path: Path) -> None:
    mark = CommitCounter(path)
    mark.write(7)
    mark.close()
    written = Home(path.parent).mark_file
    assert written.read_bytes().startswith(MARK)
    assert stat.S_IMODE(written.stat().st_mode) == 0o600


@pytest.mark.parametrize("content", [None, b"", b"HERMES-GATEWAY", b"something else entirely, and long enough"])
def test_no_mark_or_a_strange_one_counts_as_none(path: Path, content: bytes | None) -> None:
    if content is not None:
        path.with_suffix(".mark").write_bytes(content)
    assert CommitCounter(path).read() == 0


def test_reading_makes_no_file(path: Path) -> None:
    CommitCounter(path).read()
    assert list(path.parent.iterdir()) == []


def test_closed_twice_or_used_again_it_goes_on(path: Path) -> None:
    mark = CommitCounter(path)
    mark.close()
    mark.write(3)
    mark.close()
    mark.close()
    mark.write(4)
    mark.close()
    assert CommitCounter(path).read() == 4


def test_writing_needs_no_further_room(path: Path) -> None:
    mark = CommitCounter(path)
    mark.write(1)
    size = os.stat(path.with_suffix(".mark")).st_size
    mark.write(2**63)
    mark.close()
    assert os.stat(path.with_suffix(".mark")).st_size == size


def test_a_seal_holds_until_the_file_or_its_log_is_changed(path: Path) -> None:
    path.write_bytes(b"whole")
    with closing(CommitCounter(path)) as mark:
        mark.write(7)
    assert not is_sealed(path)
    seal(path)
    assert is_sealed(path)
    assert CommitCounter(path).read() == 7
    log = Path(f"{path}-wal")
    log.touch()
    assert is_sealed(path)
    log.write_bytes(b"commits")
    assert not is_sealed(path)
    log.unlink()
    path.write_bytes(b"wrong")
    assert not is_sealed(path)
