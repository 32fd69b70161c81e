"""`hermes backup`, `restore` and `export`: what goes in comes out, and nothing else is touched."""

import io
import json
import os
import sqlite3
import tarfile
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from hermes_cli.main import hermes

TOKEN = "123456:" + "A" * 35


@pytest.fixture
def work(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, beside a home with a conversation, a memory, a secret, a skill and a link."""
    home.mkdir(parents=True, exist_ok=True)
    home.chmod(0o700)
    (home / "config.yaml").write_text("model: {name: demo}  # mine\n")
    (home / ".env").write_text(f"TELEGRAM_BOT_TOKEN={TOKEN}\n")
    (home / ".env").chmod(0o600)
    (home / "skills" / "tea").mkdir(parents=True)
    (home / "skills" / "tea" / "SKILL.md").write_text("Boil water.\n")
    (home / "skills" / "outside").symlink_to("/etc")
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    monkeypatch.chdir(folder)
    run("chat", "-q", "remember that I like green tea")
    run("chat", "-q", "what is 6 * 7?")
    run("chat", "-q", f"echo {TOKEN}")
    return folder


def run(*words: str, fails: bool = False) -> str:
    result = CliRunner().invoke(hermes, words)
    assert (result.exit_code != 0) == fails, result.output
    return result.output


def test_a_home_comes_back_as_it_was(home: Path, work: Path) -> None:
    told = run("backup", "kept.tar.gz")
    assert "contains your tokens" in told
    assert "Left out: skills/outside" in told
    assert (work / "kept.tar.gz").stat().st_mode & 0o077 == 0

    (home / "config.yaml").write_text("model: {name: other/model}\n")
    (home / "hooks").mkdir()
    (home / "skills" / "tea" / "SKILL.md").unlink()
    told = run("restore", "kept.tar.gz", "--yes")

    assert (home / "config.yaml").read_text() == "model: {name: demo}  # mine\n"
    assert (home / ".env").read_text() == f"TELEGRAM_BOT_TOKEN={TOKEN}\n"
    assert (home / "skills" / "tea" / "SKILL.md").read_text() == "Boil water.\n"
    assert not (home / "hooks").exists()
    [aside] = [path for path in (home / "backups").iterdir() if path.is_dir()]
    assert (aside / "config.yaml").read_text() == "model: {name: other/model}\n"
    assert (aside / "hooks").is_dir()
    assert not list(home.glob("backups.*"))
    assert "i like green tea" in run("chat", "-q", "what do you know about me?").lower()
    assert "6 * 7" in run("sessions", "search", "what")


def test_a_backup_moves_to_another_machine(home: Path, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run("backup", "kept.tar.gz", "--without-secrets")
    monkeypatch.setenv("HERMES_HOME", str(work / "new"))
    assert "no secrets: set keys and tokens" in run("restore", "kept.tar.gz", "--yes")
    assert not (work / "new" / ".env").exists()
    assert "6 * 7" in run("sessions", "list")
    with closing(sqlite3.connect(work / "new" / "state.db")) as database:
        assert database.execute("SELECT value FROM meta WHERE name = 'went_back_ms'").fetchone() is not None


def _make_archive(path: Path, *members: tarfile.TarInfo, manifest: object = None) -> None:
    about = {"format": 1, "version": "0.1", "made_ms": 0, "without_secrets": False} if manifest is None else manifest
    text = json.dumps(about).encode()
    with tarfile.open(path, "w:gz") as archive:
        first = tarfile.TarInfo("hermes-backup.json")
        first.size = len(text)
        archive.addfile(first, io.BytesIO(text))
        for member in members:
            archive.addfile(member, io.BytesIO(b"x" * member.size))


def _traversal(path: Path) -> None:
    member = tarfile.TarInfo("../../escaped")
    member.size = 1
    _make_archive(path, member)


def _link(path: Path) -> None:
    member = tarfile.TarInfo("skills")
    member.type, member.linkname = tarfile.SYMTYPE, "/etc"
    _make_archive(path, member)


def _broken_database(path: Path) -> None:
    member = tarfile.TarInfo("state.db")
    member.size = 5_000
    _make_archive(path, member)


def _newer(path: Path) -> None:
    _make_archive(path, manifest={"format": 99, "version": "9.9", "made_ms": 0, "without_secrets": False})


def _cut(path: Path) -> None:
    whole = path.with_name("whole.tar.gz")
    member = tarfile.TarInfo("big")
    member.size = 200_000
    _make_archive(whole, member)
    path.write_bytes(whole.read_bytes()[:150])


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda path: path.write_text("hello"), "is not a whole backup"),
        (_traversal, "is not a whole backup"),
        (_link, "is not a whole backup"),
        (_cut, "is not a whole backup"),
        (_broken_database, "cannot be restored"),
        (_newer, "A newer Hermes (9.9)"),
    ],
)
def test_a_bad_archive_changes_nothing(home: Path, work: Path, make: Callable[[Path], object], reason: str) -> None:
    make(work / "bad.tar.gz")
    before = sorted(
        (str(path), path.read_bytes()) for path in home.rglob("*") if path.is_file() and "lock" not in path.name
    )
    assert reason in run("restore", "bad.tar.gz", "--yes", fails=True)
    after = sorted(
        (str(path), path.read_bytes()) for path in home.rglob("*") if path.is_file() and "lock" not in path.name
    )
    assert [name for name, _ in after] == [name for name, _ in before]
    assert dict(after)[str(home / "config.yaml")] == dict(before)[str(home / "config.yaml")]
    assert not (work.parent / "escaped").exists()


def test_a_file_that_exists_and_the_home_itself_are_no_targets(home: Path, work: Path) -> None:
    (work / "there").write_text("mine")
    for words in (("backup", "there"), ("export", "there"), ("sessions", "export", "cli", "--output", "there")):
        assert run(*words, fails=True)
    assert (work / "there").read_text() == "mine"
    assert "inside the home" in run("backup", str(home / "x.tar.gz"), fails=True)
    assert not list(work.glob("*.partial"))
    assert "could not be written" in run("backup", str(work / "missing" / "x.tar.gz"), fails=True)


def test_an_export_holds_conversations_and_memories_without_secrets(home: Path, work: Path) -> None:
    run("export", "all.zip", "--format", "json")
    with zipfile.ZipFile(work / "all.zip") as archive:
        texts = {name: archive.read(name).decode() for name in archive.namelist()}
    assert len([name for name in texts if name.startswith("conversations/cli/")]) == 3
    assert "green tea" in texts["memories.json"]
    assert not any(TOKEN in text for text in texts.values())
    questions = [
        json.loads(text)["messages"][0]["content"]
        for name, text in texts.items()
        if name.endswith(".json") and name.startswith("conversations")
    ]
    assert any("6 * 7" in str(question) for question in questions)
    assert "no conversations with nobody" in run("export", "none.zip", "--person", "nobody", fails=True)
    assert not (work / "none.zip").exists()
    assert os.stat(work / "all.zip").st_mode & 0o077 == 0


def test_one_conversation_is_exported_counted_and_deleted(home: Path, work: Path) -> None:
    listed = json.loads(run("sessions", "list", "--json"))
    sums = next(one["id"] for one in listed if "6 * 7" in one["title"])
    assert "6 * 7 = 42" in run("sessions", "export", sums)
    assert "cli: 3 conversations (3 open)" in run("sessions", "stats")
    assert json.loads(run("sessions", "stats", "--json"))[0]["sessions"] == 3
    assert "Deleted." in run("sessions", "delete", sums, "--yes")
    assert "matches" in run("sessions", "delete", sums, "--yes", fails=True)
    assert "matches" in run("sessions", "export", sums, fails=True)
    assert "Nothing found" in run("sessions", "search", "what is 6 * 7")
    assert b"6 * 7 = 42" not in b"".join(_dump(home))
    assert "cli: 2 conversations" in run("sessions", "stats")


def _dump(home: Path) -> list[bytes]:
    with closing(sqlite3.connect(home / "state.db")) as database:
        return [line.encode() for line in database.iterdump() if "messages_search" not in line]
