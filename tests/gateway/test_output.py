"""Output that is dropped instead of waited for, over real pipes."""

import fcntl
import io
import os
import sys
from collections.abc import Iterator
from contextlib import suppress

import pytest
from structlog.testing import capture_logs

from gateway.output import UnblockedOutput, unblocked_output

_PIPE_BYTES = 4096
LINE = b"x" * 99 + b"\n"


@pytest.fixture
def ends() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    yield reader, writer
    for end in (reader, writer):
        with suppress(OSError):
            os.close(end)


def drain(reader: int, size: int) -> bytes:
    with open(reader, "rb", closefd=False) as stream:
        return stream.read(size)


def test_what_is_written_arrives_in_order(ends: tuple[int, int]) -> None:
    reader, writer = ends
    output = UnblockedOutput("stderr", writer)
    for number in range(30):
        output.write(f"{number}\n".encode())
    output.stop()
    os.close(writer)
    assert drain(reader, -1).split() == [str(number).encode() for number in range(30)]


def test_lines_beyond_the_bound_are_dropped_and_counted_once_it_flows_again(ends: tuple[int, int]) -> None:
    reader, writer = ends
    os.write(writer, b"f" * _PIPE_BYTES)
    with capture_logs() as logged:
        output = UnblockedOutput("stderr", writer, max_waiting_bytes=10 * len(LINE))
        for _ in range(25):
            output.write(LINE)
        assert logged == []
        assert drain(reader, _PIPE_BYTES) == b"f" * _PIPE_BYTES
        output.stop(seconds=30)
    assert logged == [
        {"event": "lines of output were dropped", "log_level": "warning", "stream": "stderr", "lines": 15}
    ]
    os.close(writer)
    assert drain(reader, -1) == LINE * 10


def test_a_reader_that_never_wakes_up_does_not_hold_up_the_end(ends: tuple[int, int]) -> None:
    _, writer = ends
    os.write(writer, b"f" * _PIPE_BYTES)
    output = UnblockedOutput("stderr", writer)
    output.write(LINE)
    output.stop(seconds=0.01)
    output.write(LINE)  # no error either


def test_a_pipe_that_somebody_made_non_blocking_gets_all(ends: tuple[int, int]) -> None:
    reader, writer = ends
    os.set_blocking(writer, False)
    output = UnblockedOutput("stderr", writer)
    for _ in range(100):
        output.write(LINE)
    assert drain(reader, 100 * len(LINE)) == LINE * 100
    output.stop()


def test_a_line_after_one_that_was_torn_begins_anew(ends: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = ends
    write, room = os.write, [4, 0]  # a disk that takes four more bytes, then none, and then is given room

    def scarce(descriptor: int, data: memoryview) -> int:
        if room and not room[0]:
            room.clear()
            raise OSError(28, "No space left on device")
        return write(descriptor, data[: room.pop(0)] if room else data)

    monkeypatch.setattr(os, "write", scarce)
    output = UnblockedOutput("stderr", writer)
    output.write(b"a long line\n")
    output.write(b"another\n")
    output.stop()
    os.close(writer)
    assert drain(reader, -1) == b"a lo\nanother\n"


def test_the_streams_are_the_old_ones_afterwards(capfd: pytest.CaptureFixture[str]) -> None:
    with capfd.disabled():
        before = sys.stdout, sys.stderr
        with unblocked_output():
            assert isinstance(sys.stdout.buffer, UnblockedOutput)
            assert isinstance(sys.stderr, io.TextIOWrapper)
        assert (sys.stdout, sys.stderr) == before
