"""What Hermes stands on."""

import sqlite3
from pathlib import Path

import pytest

from gateway.doctor import service
from tests.gateway.doctor.scene import HOUR_MS, NOW_MS, facts_of, run_check, summary_of


def test_this_machine_will_do(root: Path) -> None:
    facts = facts_of(root, {"model": {"name": "gpt-5"}}, free_bytes=5_000_000_000)
    checks = (
        service.check_versions,
        service.check_disk,
        service.check_clock,
        service.check_packages,
        service.check_sandbox,
        service.check_ripgrep,
    )
    assert {level for check in checks for level, _ in run_check(check, facts)} == {"ok"}


@pytest.mark.parametrize(
    ("toolset", "problem", "user_id", "level"),
    [
        ("core", "there is no Chromium: apt install chromium, or set browser.executable", 0, ""),
        ("browser", "there is no Chromium: apt install chromium, or set browser.executable", 1000, "warn"),
        ("browser", "", 0, "warn"),
        ("browser", "", 1000, "ok"),
    ],
)
def test_a_browser_matters_where_it_is_switched_on(
    root: Path, toolset: str, problem: str, user_id: int, level: str
) -> None:
    settings = {"agent": {"enabled_toolsets": [toolset]}}
    found = list(service.check_browser(facts_of(root, settings, browser_problem=problem, user_id=user_id)))
    assert [one.level for one in found] == [level] * bool(level)
    assert all(one.fix == "apt install chromium" for one in found if problem)


def test_an_old_sqlite_is_bad(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 31, 1))
    [(level, text)] = run_check(service.check_versions, facts_of(root))
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
    facts = facts_of(root, free_bytes=free_bytes, store=summary_of(size_bytes=database_bytes))
    assert [found for found, _ in run_check(service.check_disk, facts)] == [level]


@pytest.mark.parametrize(
    ("now_ms", "backup_ms", "level"),
    [(0, (), "bad"), (NOW_MS, (NOW_MS + HOUR_MS,), "warn"), (NOW_MS, (NOW_MS + 1000,), "ok")],
)
def test_the_clock(root: Path, now_ms: int, backup_ms: tuple[int, ...], level: str) -> None:
    assert [
        found for found, _ in run_check(service.check_clock, facts_of(root, now_ms=now_ms, backup_ms=backup_ms))
    ] == [level]


def test_a_package_that_is_missing_is_named_with_who_needs_it(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "find_spec", lambda name: None)
    facts = facts_of(
        root, {"platforms": {"web": {"enabled": False}}, "secrets": {"slack_bot_token": "a", "slack_app_token": "b"}}
    )
    assert run_check(service.check_packages, facts) == [
        ("bad", "The Python package slack_bolt is missing; slack needs it")
    ]


def test_what_bounds_commands_in_the_sandbox_is_told_by_the_gateway_that_runs_them(root: Path) -> None:
    told_by_it = {"sandbox_limits": "by control groups (version 2): 2048 MB of memory"}
    [(_, text)] = run_check(service.check_sandbox, facts_of(root, gateway=told_by_it))
    assert text.endswith("commands are limited by control groups (version 2): 2048 MB of memory")
    [(_, text)] = run_check(service.check_sandbox, facts_of(root))
    assert text.endswith("run this while the gateway runs to see its limits")


@pytest.mark.parametrize(("backend", "level"), [("local", "warn"), ("sandbox", "bad"), ("auto", "warn")])
def test_no_sandbox_is_bad_for_who_works_in_one(root: Path, backend: str, level: str) -> None:
    facts = facts_of(root, {"terminal": {"backend": backend}}, sandbox_problem="No bubblewrap.")
    assert [found for found, _ in run_check(service.check_sandbox, facts)] == [level]


def test_no_ripgrep(root: Path) -> None:
    [finding] = service.check_ripgrep(facts_of(root, has_ripgrep=False))
    assert (finding.level, finding.fix) == ("warn", "apt install ripgrep")
