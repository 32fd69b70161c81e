"""What is read of a process's output: files as a keeper writes them."""

from pathlib import Path

import pytest

from gateway.processes.messages import Fresh
from gateway.processes.output import read_lines, read_rest
from tools.backends.base import Spawned


@pytest.fixture
def spawned(tmp_path: Path) -> Spawned:
    return Spawned(id="proc_a", pid=0, keeper_pid=0, keeper_started=0, folder=str(tmp_path))


def write(spawned: Spawned, content: bytes, *, at: int = 0) -> None:
    (Path(spawned.folder) / f"output.{at:015d}").write_bytes(content)


@pytest.mark.parametrize(
    ("content", "since", "text", "end"),
    [
        (b"one\ntwo\n", 0, "one\ntwo", 8),
        (b"one\ntwo\n", 4, "two", 8),
        (b"one\ntw", 0, "one", 4),
        (b"one\ntw", 4, "tw", 6),  # a prompt, perhaps: nobody knows whether its line will ever end
        (b"one\n", 4, "", 4),
        (b"zu " + "ß".encode()[:1], 0, "zu ", 3),
        (b"\xff\xfe", 0, "��", 2),
        (b"", 0, "", 0),
    ],
)
def test_whole_lines_if_there_are_any(spawned: Spawned, content: bytes, since: int, text: str, end: int) -> None:
    write(spawned, content)
    assert read_lines(spawned, since) == (Fresh(text=text), end)


def test_the_rest_is_all_there_is(spawned: Spawned) -> None:
    write(spawned, b"one\ntw")
    assert read_rest(spawned, 4) == Fresh(text="tw")


def test_what_is_gone_is_known_to_be(spawned: Spawned) -> None:
    write(spawned, b"one\ntwo\n")
    write(spawned, b"last\n", at=1_000)
    assert read_rest(spawned, 4) == Fresh(text="last\n", lines_before=1, is_gapped=True)
    assert read_rest(spawned, 1_000) == Fresh(text="last\n")


def test_pieces_are_read_as_one(spawned: Spawned) -> None:
    write(spawned, b"one\ntw")
    write(spawned, b"o\n", at=6)
    assert read_rest(spawned, 0) == Fresh(text="one\ntwo\n")


def test_of_much_only_the_end_is_held_and_the_rest_counted(spawned: Spawned) -> None:
    write(spawned, b"1234567\n" * 20_000)
    fresh, end = read_lines(spawned, 0)
    assert (len(fresh.text), fresh.lines_before, end) == (65_535, 20_000 - 8_192, 160_000)


def test_without_its_folder_there_is_nothing(spawned: Spawned) -> None:
    Path(spawned.folder).rmdir()
    assert read_rest(spawned, 0) == Fresh()
