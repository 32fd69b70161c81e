"""`hermes hooks`: what an operator sees and changes."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hermes_cli.main import hermes
from hermes_config.places import Home


def run(*arguments: str) -> Result:
    return CliRunner().invoke(hermes, ["hooks", *arguments])


def states() -> dict[str, str]:
    return {row["name"]: row["state"] for row in json.loads(run("list", "--json").stdout)}


def test_a_new_hook_works_and_can_be_switched() -> None:
    assert "hermes hooks test tell" in run("new", "tell", "--event", "agent:*").stdout
    tried = run("test", "tell")
    assert tried.exit_code == 0
    assert "tell handled agent:start in" in tried.output
    assert states() == {"tell": "on", "audit_log": "off", "boot": "on"}
    assert run("disable", "tell").stdout == "tell is off from the next start of the gateway.\n"
    assert run("enable", "audit_log").stdout == "audit_log is on from the next start of the gateway.\n"
    assert run("enable", "audit_log").stdout == "audit_log is on already.\n"
    assert states() == {"tell": "off", "audit_log": "on", "boot": "on"}
    assert run("enable", "tell").exit_code == 0
    assert states()["tell"] == "on"


def test_a_new_command_gets_the_event() -> None:
    run("new", "tell", "--command", "--event", "command:new")
    assert run("test", "tell").exit_code == 0
    told = Home.locate().root / "hooks" / "tell" / "events.jsonl"
    assert json.loads(told.read_text())["context"]["command"] == "new"


def test_the_list_names_file_and_line_of_a_broken_one() -> None:
    run("new", "tell")
    file = Home.locate().root / "hooks" / "tell" / "HOOK.yaml"
    file.write_text("name: tell\nevents: [agent:ende]\n")
    shown = run("list").stdout
    assert "broken   tell" in shown
    assert f"{file} line 2: there is no event 'agent:ende'; did you mean agent:end?" in shown
    assert run("test", "tell").exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("test", "tel"), 1, "There is no hook named 'tel'. Did you mean 'tell'?"),
        (("disable", "zzz"), 1, "There is no hook named 'zzz'. `hermes hooks list` shows them."),
        (("test", "tell", "agent:stop"), 1, "There is no event 'agent:stop'. tell is for: agent:end."),
        (("new", "tell"), 1, "is there already; nothing was changed."),
        (("new", "../tell"), 2, "A hook's name has letters"),
        (("new", "other", "--event", "agent:stop"), 2, "There is no event 'agent:stop'"),
        (("test",), 2, "Missing argument"),
    ],
)
def test_mistakes_say_what_to_do(arguments: tuple[str, ...], code: int, said: str) -> None:
    run("new", "tell")
    result = run(*arguments)
    assert result.exit_code == code
    assert said in result.output


def test_a_hook_that_fails_its_test_says_how(tmp_path: Path) -> None:
    run("new", "tell")
    (Home.locate().root / "hooks" / "tell" / "handler.py").write_text("import sys\ndef handle(*_):\n    sys.exit(2)\n")
    tried = run("test", "tell")
    assert tried.exit_code == 1
    assert "tell failed at agent:end: SystemExit: 2 (handler.py line 3)" in tried.output


def test_the_audit_log_is_private_and_complete() -> None:
    assert run("test", "audit_log", "agent:end").exit_code == 0
    file = Home.locate().logs / "audit.jsonl"
    assert file.stat().st_mode & 0o077 == 0
    row = json.loads(file.read_text())
    assert (row["event"], row["context"]["outcome"]) == ("agent:end", "answered")


def test_boot_gives_the_agent_what_is_written_in_boot_md() -> None:
    home = Home.locate()
    home.root.mkdir(parents=True, exist_ok=True)
    (home.root / "BOOT.md").write_text("what is 6 * 7?\n")
    tried = run("test", "boot")
    assert tried.exit_code == 0, tried.output
    assert "42" in (home.logs / "boot.log").read_text()
