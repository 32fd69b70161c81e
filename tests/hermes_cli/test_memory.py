"""`hermes memory` and `/memory` at the terminal."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from hermes_cli.main import hermes


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def run(*words: str, fails: bool = False) -> str:
    result = CliRunner().invoke(hermes, words)
    assert (result.exit_code != 0) == fails, result.output
    return result.output


def test_what_is_said_is_remembered_explained_forgotten_and_brought_back(home: Path) -> None:
    assert "Saved as i_like_green_tea" in run("chat", "-q", "remember that I like green tea")
    assert (home / "memories" / "owner" / "i_like_green_tea.json").exists()
    assert "I like green tea" in run("chat", "-q", "what do you know about me?")
    assert "I like green tea" in run("chat", "-q", "what do you know about tea?")
    assert "from the message “remember that" in run("chat", "-q", "/memory why i_like_green_tea")
    assert "Forgotten" in run("chat", "-q", "/memory forget i_like_green_tea")
    assert not (home / "memories" / "owner" / "i_like_green_tea.json").exists()
    assert "I remember nothing about you yet" in run("chat", "-q", "/memory")
    assert "it is back" in run("chat", "-q", "/memory undo")
    assert "Forgotten" in run("chat", "-q", "forget that I like green tea")
    assert "looks like a secret" in run("chat", "-q", "remember that my password is hunter2222")


def test_the_owner_manages_memories_at_the_command_line(home: Path) -> None:
    assert "Nothing is remembered yet." in run("memory", "list")
    run("memory", "set", "Cat", "Minka is the cat", "--pin")
    run("memory", "set", "office", "open from nine", "--shared")
    assert run("memory", "search", "what is the cat called?").startswith("cat: Minka")
    assert "office: open from nine (shared)" in run("memory", "list")
    assert "written by you" in run("memory", "why", "cat")
    assert '"pinned": 1' in run("memory", "list", "--json")
    assert "Undone: cat was added" in run("memory", "undo")
    assert "no memory" in run("memory", "forget", "cat", fails=True)
    assert "looks like a secret" in run("memory", "set", "k", "sk-proj-Ab3dEf6hIj9kLm2nOp5qRs8t", fails=True)
    assert "cannot be used" in run("memory", "set", "../x", "y", fails=True)
