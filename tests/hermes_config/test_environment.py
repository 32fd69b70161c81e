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


def test_notify_socket_is_none_without_systemd(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    assert environment.notify_socket() is None
    monkeypatch.setenv("NOTIFY_SOCKET", "/run/x")
    assert environment.notify_socket() == "/run/x"


def test_a_variable_set_to_nothing_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_NAME", "")
    assert not environment.has("SOME_NAME")
    monkeypatch.setenv("SOME_NAME", "x")
    assert environment.has("SOME_NAME")
