"""Twenty planted faults: `hermes doctor` finds each, and `--fix` fixes those that a command can fix."""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from hermes_cli.doctor_fix import read_command
from hermes_cli.main import hermes as command
from hermes_config.places import Home
from tests.hermes_cli.at_a_terminal import AtATerminal
from tests.hermes_cli.running import hermes
from tests.hermes_cli.systemd import StandIn
from tests.programs import needs

TOKEN = "123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw9"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault, the words by which it is told, and whether a command can fix it."""

    plant: Callable[[Path], object]
    told: str
    fixed: bool = False


def write(name: str, text: str, mode: int = 0o600) -> Callable[[Path], object]:
    def plant(home: Path) -> None:
        file = home / name
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file.write_text(text)
        file.chmod(mode)

    return plant


def plant_unit(home: Path) -> None:
    write("../config/systemd/user/hermes-gateway.service", "[Service]\nExecStart=/gone/hermes gateway run\n")(home)


def plant_damage(home: Path) -> None:
    write("state.mark", "HERMES-GATEWAY")(home)
    write("state.db", "x" * 9000)(home)


FAULTS = {
    "open home": Fault(plant=lambda home: home.chmod(0o755), told="can open .*mode 0755", fixed=True),
    "open secrets": Fault(plant=write(".env", f"FAL_KEY={TOKEN}\n", 0o644), told=r"can open 1 file: \.env", fixed=True),
    "open backup": Fault(plant=write("backups/state.db", "", 0o644), told="can open 1 file: backups", fixed=True),
    "copy of secrets": Fault(plant=write(".env.old", ""), told="copy of your secrets", fixed=True),
    "open to all": Fault(plant=write("config.yaml", "access: {allow_all_users: true}\n"), told="ANYBODY", fixed=True),
    "no limit": Fault(
        plant=write("config.yaml", "access: {messages_per_minute: 0}\n"), told="no message limit", fixed=True
    ),
    "page for all": Fault(
        plant=write("config.yaml", "platforms: {web: {host: 0.0.0.0}}\n"), told="other machines can reach", fixed=True
    ),
    "no approvals": Fault(plant=write("config.yaml", "approvals: {mode: 'off'}\n"), told="without asking", fixed=True),
    "sudo password": Fault(plant=write(".env", "SUDO_PASSWORD=hunter2hunter2\n"), told="can become root", fixed=True),
    "writable soul": Fault(plant=write("SOUL.md", "Be kind.\n", 0o666), told="can change .*SOUL.md", fixed=True),
    "half of Slack": Fault(plant=write(".env", "SLACK_BOT_TOKEN=xoxb-some-token\n"), told="also needs SLACK_APP_TOKEN"),
    "program gone": Fault(plant=plant_unit, told="/gone/hermes, which does not exist", fixed=True),
    "wrong value": Fault(plant=write("config.yaml", "gateway: {max_turns: many}\n"), told="max_turns is 'many'"),
    "broken YAML": Fault(plant=write("config.yaml", "gateway: [\n"), told="not valid YAML|line"),
    "unknown key": Fault(plant=write("config.yaml", "gateway: {max_turn: 3}\n"), told="did you mean gateway.max_turns"),
    "newer file": Fault(plant=write("config.yaml", "_config_version: 99\n"), told="newer Hermes"),
    "secret in settings": Fault(plant=write("config.yaml", f"user: {{name: '{TOKEN}'}}\n"), told="contains"),
    "no key": Fault(plant=write("config.yaml", "model: {name: gpt-5}\n"), told="no key for it is set"),
    "unknown toolset": Fault(plant=write("config.yaml", "agent: {enabled_toolsets: [nope]}\n"), told="no toolset"),
    "foreign home": Fault(plant=write("state.db", "SQLite format 3\0" + "\0" * 4080), told="another program"),
    "damaged store": Fault(plant=plant_damage, told="state.db"),
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("MESSAGING_CWD", str(tmp_path))
    Home(tmp_path / "home").prepare()
    StandIn(tmp_path / "programs")
    (tmp_path / "programs" / "apt").write_text("#!/bin/sh\nexit 1\n")  # nothing is installed by a test
    (tmp_path / "programs" / "apt").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'programs'}:{os.environ['PATH']}")
    return tmp_path / "home"


def examine(*arguments: str, typed: str | None = None) -> str:
    """Return what both examinations print."""
    return "".join(
        CliRunner().invoke(command, ["doctor", *arguments, *more], input=typed).output for more in ((), ("--security",))
    )


def problems(shown: str) -> str:
    """Return the lines of findings that are not fine."""
    return "\n".join(line for line in shown.splitlines() if re.match(r"  [!✗] ", line))


def test_a_sound_home_has_none_of_them(home: Path) -> None:
    shown = problems(examine())
    assert [name for name, fault in FAULTS.items() if re.search(fault.told, shown)] == []


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found_and_fixed(home: Path, name: str) -> None:
    fault = FAULTS[name]
    fault.plant(home)
    assert re.search(fault.told, problems(examine()))
    before = {file: file.read_bytes() for file in home.rglob("*") if file.is_file()}
    refused = examine("--fix", typed="n\n" * 20)
    assert "Done." not in refused
    assert {file: file.read_bytes() for file in home.rglob("*") if file.is_file()} == before
    if not fault.fixed:
        assert re.search(fault.told, problems(refused))
        return
    for more in ((), ("--security",)):
        fix_only(fault, *more)
    assert not re.search(fault.told, problems(examine()))


def fix_only(fault: Fault, *more: str) -> None:
    """Say yes to the question about this fault, and no to all others."""
    shown = hermes("doctor", "--fix", *more, typed="n\n" * 20).stdout
    questions = re.split(r"  Run `[^`]*`\? \[Y/n\]:", shown)[:-1]
    asked = [bool(re.search(fault.told, question.rpartition("\n")[0].rpartition("\n")[2])) for question in questions]
    if any(asked):
        typed = "n\n" * asked.index(True) + "y\n" + "n\n" * 20
        done = hermes("doctor", "--fix", *more, typed=typed)
        assert "  Done.\n" in done.stdout, done.stdout + done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("fix", "words"),
    [
        ("chmod 700 '/a b'", ["chmod", "700", "/a b"]),
        ("hermes config set access.allowed_chats …", []),
        ("to close one: hermes config set access.allowed_chats telegram:1", []),
        ("hermes config set TELEGRAM_BOT_TOKEN, then restart the gateway", []),
        ("hermes gateway run", []),
        ("it's broken", []),
        ("", []),
    ],
)
def test_only_complete_commands_are_run(fix: str, words: list[str]) -> None:
    assert read_command(fix) == words


def test_a_command_that_fails_is_reported(home: Path, tmp_path: Path) -> None:
    home.chmod(0o755)
    broken = tmp_path / "programs" / "chmod"
    broken.write_text("#!/bin/sh\necho read-only >&2\nexit 1\n")
    broken.chmod(0o755)
    shown = hermes("doctor", "--fix", typed="y\n" * 20)
    assert f"  Run `chmod 700 {home}`? [Y/n]:" in shown.stdout
    assert "  Failed: read-only\n" in shown.stdout
    assert shown.returncode == 1
    assert "leave --json out" in hermes("doctor", "--fix", "--json").stderr


@needs("bubblewrap")  # or doctor offers to install them first
@needs("ripgrep")
def test_a_missing_token_is_asked_for_hidden(home: Path, tmp_path: Path) -> None:
    FAULTS["half of Slack"].plant(home)
    with AtATerminal("doctor", "--fix", cwd=tmp_path, columns=200) as terminal:
        terminal.until("Run `hermes config set SLACK_APP_TOKEN`? [Y/n]: ")
        terminal.press("\n")
        terminal.until("SLACK_APP_TOKEN: ")
        terminal.press("xapp-some-token\n")
        terminal.until("Done.")
        terminal.leave()
        assert "xapp-some-token" not in terminal.shown
        assert "slack has its token" in terminal.shown
    assert "SLACK_APP_TOKEN=xapp-some-token\n" in (home / ".env").read_text()
