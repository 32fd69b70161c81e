"""One gateway per home, and what it tells about itself."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from gateway.errors import AlreadyRunning, StoreUnavailable
from gateway.lock import HomeLock, hold_home, read_state

HOLD = """
import sys
from pathlib import Path
from gateway.lock import hold_home
with hold_home(Path(sys.argv[1])) as lock:
    lock.tell({"state": "serving"})
    print("held", flush=True)
    sys.stdin.read()
"""
ROOT = Path(__file__).parents[2]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "gateway.lock"


@pytest.fixture
def other(path: Path) -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def end(process: "subprocess.Popen[str]") -> None:
    process.communicate(timeout=10)


def test_the_second_is_told_the_pid_of_the_first(path: Path, other: "subprocess.Popen[str]") -> None:
    with pytest.raises(AlreadyRunning, match=rf"pid {other.pid}\) is running in {path.parent}"), hold_home(path):
        pass
    end(other)


def test_the_state_can_be_read_while_it_is_held(path: Path, other: "subprocess.Popen[str]") -> None:
    assert read_state(path) == {"pid": other.pid, "state": "serving"}
    end(other)
    assert read_state(path) is None


def test_kill_nine_frees_the_home(path: Path, other: "subprocess.Popen[str]") -> None:
    other.send_signal(signal.SIGKILL)
    end(other)
    assert read_state(path) is None
    with hold_home(path):
        assert read_state(path) == {"pid": os.getpid(), "state": "starting"}


def test_no_file_means_no_gateway(path: Path) -> None:
    assert read_state(path) is None


def test_the_file_is_the_owners_alone(path: Path) -> None:
    with hold_home(path):
        assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", [b"", b'{"pid": 12', b"[1, 2]", b"\xff\xfe", b"nonsense".ljust(9000)])
def test_a_torn_state_is_no_state(path: Path, content: bytes) -> None:
    with hold_home(path):
        path.write_bytes(content)
        assert read_state(path) == {}
        with pytest.raises(AlreadyRunning, match="pid unknown"), hold_home(path):
            pass


def test_more_than_fits_is_not_told_in_part(path: Path) -> None:
    with hold_home(path) as lock:
        lock.tell({"platforms": {f"account {n}": "x" * 200 for n in range(100)}})
        assert read_state(path) == {"pid": os.getpid(), "problem": "the state is too long for the lock file"}
        lock.tell({"state": "serving ü"})
        assert read_state(path) == {"pid": os.getpid(), "state": "serving ü"}
        assert path.stat().st_size == 4096


def test_a_disk_that_takes_nothing_does_not_end_the_gateway() -> None:
    full = os.open("/dev/full", os.O_RDWR)
    try:
        HomeLock(full).tell({"state": "serving"})
    finally:
        os.close(full)


def test_those_who_look_take_neither_each_other_nor_the_home(path: Path) -> None:
    """`hermes status` in a loop must not look like a gateway to another one, nor keep a gateway from starting."""
    path.touch()
    seen: list[object] = []
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            if (state := read_state(path)) not in (None, {"pid": os.getpid(), "state": "starting"}):
                seen.append(state)

    lookers = [threading.Thread(target=look) for _ in range(2)]
    for looker in lookers:
        looker.start()
    try:
        for _ in range(5):
            with hold_home(path):
                pass
    finally:
        stop.set()
        for looker in lookers:
            looker.join()
    assert seen in ([], [{}] * len(seen))  # between the lock and the first word there is nothing to read


def test_a_home_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "gateway.lock").mkdir()
    with pytest.raises(StoreUnavailable, match="cannot be written"), hold_home(tmp_path / "gateway.lock"):
        pass


def test_a_link_in_place_of_the_lock_is_refused_and_not_followed(path: Path, tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_text("stays")
    path.symlink_to(target)
    with pytest.raises(StoreUnavailable, match="symbolic link"), hold_home(path):
        pass
    with pytest.raises(StoreUnavailable, match="symbolic link"):
        read_state(path)
    path.unlink()
    path.symlink_to(tmp_path / "missing")
    with pytest.raises(StoreUnavailable, match="symbolic link"), hold_home(path):
        pass
    assert target.read_text() == "stays"
    assert not (tmp_path / "missing").exists()
