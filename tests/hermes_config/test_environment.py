"""What systemd tells us through the environment."""

import os

import pytest

from hermes_config import environment


@pytest.mark.parametrize(
    ("usec", "pid", "expected"),
    [
        ("30000000", None, 30.0),
        ("500000", "own", 0.5),
        ("30000000", "1", None),
        ("", None, None),
        ("0", None, None),
        ("soon", None, None),
    ],
)
def test_watchdog_counts_only_for_this_process(
    monkeypatch: pytest.MonkeyPatch, usec: str, pid: str | None, expected: float | None
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", usec)
    monkeypatch.delenv("WATCHDOG_PID", raising=False)
    if pid:
        monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()) if pid == "own" else pid)
    assert environment.watchdog_seconds() == expected
