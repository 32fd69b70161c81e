"""`hermes keys`: made for a person, shown once, listed without the key, revoked."""

import json
from pathlib import Path

import pytest

from gateway.store import members
from tests.hermes_cli.running import hermes, written


@pytest.fixture(autouse=True)
def _in_home(home: Path, made: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_HOME", str(home))


def test_a_key_is_shown_once_listed_and_revoked(home: Path) -> None:
    made = hermes("keys", "create", "--person", "owner", "--label", "home server")
    assert made.returncode == 0, made.stderr
    [key] = [word for word in made.stdout.split() if word.startswith("sk-hermes-")]
    assert "http.enabled true" in made.stdout
    listed = hermes("keys", "list")
    assert f"…{key[-4:]}  owner (owner)" in listed.stdout
    assert "never used  home server" in listed.stdout
    assert key not in listed.stdout
    assert key.encode() not in (home / "state.db").read_bytes()
    assert "is revoked" in hermes("keys", "revoke", "1").stdout
    assert "was revoked" in hermes("keys", "revoke", "1").stdout
    assert "revoked" in hermes("keys", "list").stdout
    unknown = hermes("keys", "revoke", "7")
    assert (unknown.returncode, "no key 7" in unknown.stderr) == (2, True)


def test_a_key_is_for_a_person_who_is_known_or_made_for_it(home: Path) -> None:
    with written(home) as tx:
        members.admit(tx, "telegram", "77", "Ada", "member")
        members.admit(tx, "telegram", "78", "Bob", "member")
        members.admit(tx, "discord", "9", "Bob", "guest")
    for who in ("Ada", "ada", "telegram:77"):
        made = json.loads(hermes("keys", "create", "--person", who, "--json").stdout)
        assert (made["person"], made["role"]) == ("Ada", "member")
        assert made["base_url"] == "http://127.0.0.1:8642/v1"
    for arguments, told in (
        (("--person", "Bob"), "Several people"),
        (("--person", "Adda"), "Did you mean Ada?"),
        (("--person", "zzz"), "add --new"),
        (("--person", "Ada", "--new"), "already"),
        (("--person", "Ada", "--role", "owner"), "--role is for --new"),
        ((), "--person"),
    ):
        refused = hermes("keys", "create", *arguments)
        assert refused.returncode == 2, arguments
        assert told in refused.stderr
    robot = json.loads(hermes("keys", "create", "--person", "ci", "--new", "--role", "guest", "--json").stdout)
    assert (robot["person"], robot["role"]) == ("ci", "guest")
    assert len(json.loads(hermes("keys", "list", "--json").stdout)) == 4
