"""All checks together: whatever is ill, the doctor stands."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import structlog

from gateway.doctor import service
from gateway.doctor.checks import HEALTH, SECURITY, run
from gateway.doctor.facts import Facts, Finding, Unknown, gather, ok, warn, worst
from gateway.store.db.prepare import BackupPolicy, prepare
from hermes_config.places import Home
from tests.gateway.doctor.scene import facts_of
from tests.privileges import bound_by_file_modes


def stumbles(facts: Facts) -> Iterator[Finding]:
    yield ok("so far")
    raise ValueError("a secret could stand here")


def does_not_know(facts: Facts) -> Iterator[Finding]:
    raise Unknown("people")
    yield


def test_a_check_that_raises_is_a_finding_and_the_others_are_heard(root: Path) -> None:
    with structlog.testing.capture_logs() as logged:
        found = run({"machine": (stumbles, does_not_know, service.check_ripgrep)}, facts_of(root))
    assert [finding.level for finding in found] == ["ok", "bad", "ok"]
    assert "test_checks.stumbles failed (ValueError)" in found[1].text
    assert "secret" not in found[1].text
    assert [line["check"] for line in logged] == ["test_checks.stumbles"]


def test_the_worst_counts() -> None:
    assert worst([]) == "ok"
    assert worst([ok(""), warn(""), ok("")]) == "warn"


def _bad_yaml(root: Path) -> None:
    (root / "config.yaml").write_text("gateway: [")


def _binary_settings(root: Path) -> None:
    (root / "config.yaml").write_bytes(b"\xff\xfe\0")
    (root / ".env").write_bytes(b"\xff\xfe\0")


def _folders_for_files(root: Path) -> None:
    for name in ("config.yaml", ".env", "SOUL.md", "gateway.lock", "state.mark"):
        (root / name).mkdir()


def _files_for_folders(root: Path) -> None:
    for name in ("backups", "logs", "tools", "skills"):
        (root / name).write_text("no folder")


def _damaged(root: Path) -> None:
    prepare(root / "state.db", BackupPolicy(backups=root / "backups"), repair=False)
    (root / "state.db").write_bytes(b"SQLite format 3\0" + b"x" * 5000)


def _nonsense_in_the_lock(root: Path) -> None:
    (root / "gateway.lock").write_text('["what"]')


def _dangling_links(root: Path) -> None:
    (root / "tools").mkdir()
    (root / "tools" / "gone.py").symlink_to(root / "nowhere")
    for name in ("SOUL.md", "tools/round.py"):
        (root / name).symlink_to(root / name)


def _unreadable(root: Path) -> None:
    (root / "logs").mkdir(mode=0)
    (root / "tools").mkdir()
    for name in (".env", "SOUL.md", "tools/own.py"):
        (root / name).touch(mode=0)


@pytest.mark.parametrize(
    "spoil",
    [
        _bad_yaml,
        _binary_settings,
        _folders_for_files,
        _files_for_folders,
        _damaged,
        _nonsense_in_the_lock,
        _dangling_links,
        _unreadable,
    ],
)
def test_whatever_is_in_the_home_everything_is_looked_at(root: Path, spoil: Callable[[Path], None]) -> None:
    spoil(root)
    before = {path: path.lstat().st_mode for path in root.iterdir()}
    with bound_by_file_modes():
        facts = gather(Home(root))
        found = [*run(HEALTH, facts), *run(SECURITY, facts)]
    parts = {finding.part for finding in found}
    assert {"machine", "permissions"} <= parts
    assert "doctor" not in parts, found  # no check broke
    assert {path: path.lstat().st_mode for path in root.iterdir() if path in before} == before


def test_what_cannot_be_looked_at_is_said(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("gateway.doctor.facts.read_state", refuse)
    found = run({}, gather(Home(root)))
    assert [(one.level, one.text) for one in found] == [
        ("bad", "Cannot read the lock file of the home: permission denied")
    ]


def test_no_check_is_listed_twice() -> None:
    for checks in (HEALTH, SECURITY):
        listed = [check for group in checks.values() for check in group]
        assert len(set(listed)) == len(listed)
