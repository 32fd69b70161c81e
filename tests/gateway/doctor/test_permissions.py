"""Who else on this machine may read what we keep, or change what we obey."""

import os
from pathlib import Path

import pytest

from gateway.doctor import files
from gateway.doctor.facts import Facts
from gateway.store.db.backup import make_backup
from gateway.store.db.prepare import BackupPolicy, prepare
from hermes_config.edit import set_value
from hermes_config.places import Home
from tests.gateway.doctor.scene import facts_of, run_check


def ours(root: Path) -> Facts:
    return facts_of(root, user_id=os.geteuid())


def test_a_home_as_we_make_it_is_in_order(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.prepare()
    set_value(home, "gateway.max_turns", "5")
    set_value(home, "TELEGRAM_BOT_TOKEN", "1:secret-of-a-bot")
    prepare(home.database, BackupPolicy(backups=home.backups), repair=False)
    make_backup(home.database, home.backups, keep=1)
    (home.root / "SOUL.md").touch(0o644)
    facts = ours(home.root)
    checks = (files.check_home, files.check_state_files, files.check_instructions)
    assert [level for check in checks for level, _ in run_check(check, facts)] == ["ok"] * 3


@pytest.mark.parametrize("mode", [0o755, 0o710, 0o707])
def test_an_open_home_is_bad(root: Path, mode: int) -> None:
    root.chmod(mode)
    [finding] = files.check_home(ours(root))
    assert (finding.level, finding.fix) == ("bad", f"chmod 700 {root}")


def test_the_home_of_another_user_is_bad(root: Path) -> None:
    [(level, text), _] = run_check(files.check_home, facts_of(root, user_id=os.geteuid() + 1))
    assert (level, "belongs to another user" in text) == ("bad", True)


def test_a_folder_above_that_everybody_may_write_to_is_bad(root: Path) -> None:
    assert run_check(files.check_parent_folders, ours(root)) == []  # /tmp is writable, and sticky
    root.parent.chmod(0o777)
    assert [level for level, _ in run_check(files.check_parent_folders, ours(root))] == ["bad"]
    root.parent.chmod(0o1777)
    assert run_check(files.check_parent_folders, ours(root)) == []


@pytest.mark.parametrize(
    ("name", "level"),
    [
        (".env", "bad"),
        ("state.db", "bad"),
        ("backups/state-1.db", "bad"),
        ("config.yaml", "warn"),
        ("logs/gateway.log", "warn"),
        ("document_cache/abc", "warn"),
        ("workspaces/ada/notes.txt", "ok"),  # theirs
        ("skills/plants/SKILL.md", "ok"),  # no secret
    ],
)
def test_a_file_that_others_may_read(root: Path, name: str, level: str) -> None:
    file = root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    for folder in file.relative_to(root).parents:
        (root / folder).chmod(0o700)
    file.touch()
    file.chmod(0o644)
    [(found, text)] = run_check(files.check_state_files, ours(root))
    assert found == level
    assert (name in text) == (level != "ok")


def test_a_file_of_another_owner_is_bad(root: Path) -> None:
    (root / "state.db").touch(0o600)
    other = os.geteuid() + 1
    [finding] = files.check_state_files(facts_of(root, user_id=other))
    assert (finding.level, finding.fix) == ("bad", f"sudo chown -R {other} {root}")
    assert finding.text.endswith("with another owner: state.db")


def test_what_the_agent_obeys_may_not_be_another_users(root: Path) -> None:
    (root / "SOUL.md").touch(0o644)
    user = os.geteuid()
    if user == 0:  # who may change everything anyway, so the file goes to another
        os.chown(root / "SOUL.md", 4242, -1)
    [(level, text)] = run_check(files.check_instructions, facts_of(root, user_id=user and user + 1))
    assert (level, "belongs to another user" in text) == ("bad", True)


def test_many_files_that_others_may_change_are_told_in_a_few_lines(root: Path) -> None:
    (root / "tools").mkdir()
    for number in range(9):
        (root / "tools" / f"{number}.py").touch()
        (root / "tools" / f"{number}.py").chmod(0o666)
    *named, rest = run_check(files.check_instructions, ours(root))
    assert len(named) == 5
    assert rest == ("bad", "The same is true of 4 more files")


def test_root_looks_at_the_home_of_another_as_that_one_would(root: Path) -> None:
    (root / "state.db").touch(0o600)
    assert [level for level, _ in run_check(files.check_state_files, facts_of(root, user_id=0))] == ["ok"]


@pytest.mark.parametrize("name", ["SOUL.md", "AGENTS.md", "tools", "hooks/greet/handler.py", "skills/plants"])
@pytest.mark.parametrize(("mode", "level"), [(0o777, "bad"), (0o770, "warn"), (0o755, "ok")])
def test_what_the_agent_obeys_is_for_nobody_else_to_change(root: Path, name: str, mode: int, level: str) -> None:
    path = root / name
    path.mkdir(parents=True) if "." not in name else path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    for folder in path.relative_to(root).parents:
        (root / folder).chmod(0o700)
    path.chmod(mode)
    found = run_check(files.check_instructions, ours(root))
    assert [one for one, _ in found] == [level] * len(found)


@pytest.mark.parametrize("name", ["state.db", "backups/state-1.db"])
def test_a_full_cache_hides_nothing_that_matters_more(root: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr("gateway.doctor.files._MAX_FILES", 10)
    (root / "audio_cache").mkdir(mode=0o700)
    for number in range(20):
        (root / "audio_cache" / str(number)).touch(0o600)
    (root / name).parent.mkdir(mode=0o700, exist_ok=True)
    (root / name).touch(0o644)
    assert run_check(files.check_state_files, ours(root)) == [
        ("bad", f"Other users of this machine can open 1 file: {name}")
    ]
