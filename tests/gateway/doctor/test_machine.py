"""What Hermes stands on."""

import sqlite3
from pathlib import Path

import pytest

from gateway.doctor import service
from tests.gateway.doctor.scene import HOUR_MS, NOW_MS, facts_of, look_of, told


def test_this_machine_will_do(root: Path) -> None:
    facts = facts_of(root, {"model": {"name": "gpt-5"}}, free_bytes=5_000_000_000)
    checks = (service.versions, service.disk, service.clock, service.packages, service.sandbox, service.search)
    assert {level for check in checks for level, _ in told(check, facts)} == {"ok"}


def test_an_old_sqlite_is_bad(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 31, 1))
    [(level, text)] = told(service.versions, facts_of(root))
    assert level == "bad"
    assert "needs SQLite 3.35.0 or newer" in text


@pytest.mark.parametrize(
    ("free_bytes", "database_bytes", "level"),
    [
        (99_000_000, 0, "bad"),
        (900_000_000, 0, "warn"),
        (3_000_000_000, 2_000_000_000, "warn"),
        (5_000_000_000, 2_000_000_000, "ok"),
    ],
)
def test_the_disk(root: Path, free_bytes: int, database_bytes: int, level: str) -> None:
    facts = facts_of(root, free_bytes=free_bytes, look=look_of(size_bytes=database_bytes))
    assert [found for found, _ in told(service.disk, facts)] == [level]


@pytest.mark.parametrize(
    ("now_ms", "backup_ms", "level"),
    [(0, (), "bad"), (NOW_MS, (NOW_MS + HOUR_MS,), "warn"), (NOW_MS, (NOW_MS + 1000,), "ok")],
)
def test_the_clock(root: Path, now_ms: int, backup_ms: tuple[int, ...], level: str) -> None:
    assert [found for found, _ in told(service.clock, facts_of(root, now_ms=now_ms, backup_ms=backup_ms))] == [level]


def test_a_package_that_is_missing_is_named_with_who_needs_it(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "find_spec", lambda name: None)
    facts = facts_of(
        root, {"platforms": {"web": {"enabled": False}}, "secrets": {"slack_bot_token": "a", "slack_app_token": "b"}}
    )
    assert told(service.packages, facts) == [("bad", "The Python package slack_bolt, which slack needs, is missing")]


def test_what_bounds_commands_in_the_sandbox_is_told_by_the_gateway_that_runs_them(root: Path) -> None:
    told_by_it = {"sandbox_limits": "by control groups (version 2): 2048 MB of memory"}
    [(_, text)] = told(service.sandbox, facts_of(root, gateway=told_by_it))
    assert text.endswith("its commands are bounded by control groups (version 2): 2048 MB of memory")
    [(_, text)] = told(service.sandbox, facts_of(root))
    assert text.endswith("a running gateway tells what bounds its commands")


@pytest.mark.parametrize(("backend", "level"), [("local", "warn"), ("bubblewrap", "bad")])
def test_no_sandbox_is_bad_for_who_works_in_one(root: Path, backend: str, level: str) -> None:
    facts = facts_of(root, {"terminal": {"backend": backend}}, sandbox_problem="No bubblewrap.")
    assert [found for found, _ in told(service.sandbox, facts)] == [level]


def test_no_ripgrep(root: Path) -> None:
    [finding] = service.search(facts_of(root, has_ripgrep=False))
    assert (finding.level, finding.fix) == ("warn", "apt install ripgrep")
