"""What is read of a process's output: files as a keeper writes them."""

from pathlib import Path

import pytest

from gateway.processes.messages import Fresh
from gateway.processes.output import read_lines, read_rest
from tools.backends.background import BackgroundProcesses
from tools.backends.base import ProcessHandle

PROCESSES = BackgroundProcesses()


@pytest.fixture
def handle(tmp_path: Path) -> ProcessHandle:
    data = {"supervisor_pid": 0, "supervisor_started": 0, "folder": str(tmp_path)}
    return ProcessHandle(id="proc_a", backend="local", data=data)


def write(handle: ProcessHandle, content: bytes, *, at: int = 0) -> None:
    (Path(handle.data["folder"]) / f"output.{at:015d}").write_bytes(content)


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
async def test_whole_lines_if_there_are_any(
    handle: ProcessHandle, content: bytes, since: int, text: str, end: int
) -> None:
    write(handle, content)
    assert await read_lines(PROCESSES, handle, since) == (Fresh(text=text), end)


async def test_the_rest_is_all_there_is(handle: ProcessHandle) -> None:
    write(handle, b"one\ntw")
    assert await read_rest(PROCESSES, handle, 4) == Fresh(text="tw")


async def test_what_is_gone_is_known_to_be(handle: ProcessHandle) -> None:
    write(handle, b"one\ntwo\n")
    write(handle, b"last\n", at=1_000)
    assert await read_rest(PROCESSES, handle, 4) == Fresh(text="last\n", lines_before=1, is_gapped=True)
    assert await read_rest(PROCESSES, handle, 1_000) == Fresh(text="last\n")


async def test_pieces_are_read_as_one(handle: ProcessHandle) -> None:
    write(handle, b"one\ntw")
    write(handle, b"o\n", at=6)
    assert await read_rest(PROCESSES, handle, 0) == Fresh(text="one\ntwo\n")


async def test_of_much_only_the_end_is_held_and_the_rest_counted(handle: ProcessHandle) -> None:
    write(handle, b"1234567\n" * 20_000)
    fresh, end = await read_lines(PROCESSES, handle, 0)
    assert (len(fresh.text), fresh.lines_before, end) == (65_535, 20_000 - 8_192, 160_000)


async def test_without_its_folder_there_is_nothing(handle: ProcessHandle) -> None:
    Path(handle.data["folder"]).rmdir()
    assert await read_rest(PROCESSES, handle, 0) == Fresh()
