"""What systemd hears, over a real datagram socket."""

import asyncio
import os
import secrets
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway import systemd
from tests.programs import needs

ROOT = Path(__file__).parents[2]


@pytest.fixture(params=["path", "abstract"])
def listener(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[socket.socket]:
    address = str(tmp_path / "notify") if request.param == "path" else f"@hermes-test-{secrets.token_hex(8)}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(address.replace("@", "\0", 1) if address.startswith("@") else address)
        heard.settimeout(5)
        monkeypatch.setenv("NOTIFY_SOCKET", address)
        yield heard


def test_several_lines_are_one_message(listener: socket.socket) -> None:
    systemd.notify("READY=1", "STATUS=Serving")
    assert listener.recv(1000) == b"READY=1\nSTATUS=Serving"


async def test_the_watchdog_is_fed_until_the_end(listener: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "30000")
    monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()))
    feeding = asyncio.create_task(systemd.feed_watchdog())
    for _ in range(3):
        assert await asyncio.to_thread(listener.recv, 1000) == b"WATCHDOG=1"
    feeding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await feeding


@pytest.mark.parametrize(
    "watch", [{}, {"WATCHDOG_USEC": "0"}, {"WATCHDOG_USEC": "soon"}, {"WATCHDOG_USEC": "30000", "WATCHDOG_PID": "1"}]
)
async def test_nobody_is_fed_who_does_not_watch_us(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch, watch: dict[str, str]
) -> None:
    for name, value in watch.items():
        monkeypatch.setenv(name, value)
    async with asyncio.timeout(30):
        await systemd.feed_watchdog()
    listener.setblocking(False)
    with pytest.raises(BlockingIOError):
        listener.recv(1000)


def test_without_systemd_nothing_happens(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    systemd.notify("READY=1")
    assert capfd.readouterr() == ("", "")


def test_a_systemd_that_went_away_is_no_reason_to_fail(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "gone"))
    systemd.notify("READY=1")
    monkeypatch.setenv("NOTIFY_SOCKET", "/" + "x" * 200)
    systemd.notify("READY=1")


def find_complaints(unit: Path, manager: str) -> list[str]:
    """Return what `systemd-analyze verify` says about a unit."""
    run = subprocess.run(
        ["systemd-analyze", "verify", manager, str(unit)],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.environ["PATH"], "XDG_RUNTIME_DIR": str(unit.parent)},
    )
    return [line for line in run.stderr.splitlines() if "hermes-gateway" in line]


@needs("systemd")
@pytest.mark.parametrize(
    ("unit", "manager"), [("hermes-gateway.service", "--user"), ("deploy/hermes-gateway.system.service", "--system")]
)
def test_the_unit_files_are_sound(unit: str, manager: str, tmp_path: Path) -> None:
    """With a program that exists in place of the installed one: whether that is there is not the file's matter."""
    text = (ROOT / unit).read_text()
    program = tmp_path / "hermes"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    before = [line for line in text.splitlines() if line.startswith("ExecStart=")]
    assert [line.split("hermes", 1)[1] for line in before] in ([" gateway run"], ["/bin/hermes gateway run"])
    copy = tmp_path / "hermes-gateway.service"
    copy.write_text(text.replace(before[0], f"ExecStart={program} gateway run"))
    assert find_complaints(copy, manager) == []
    lines = set(text.splitlines())
    assert {"Type=notify", "WatchdogSec=60", "Restart=on-failure"} <= lines
    # Background processes outlive a restart, and the sandbox may have control groups: not if those are protected.
    assert {"KillMode=process", "Delegate=cpu memory pids"} <= lines
    assert "ProtectControlGroups=yes" not in lines
