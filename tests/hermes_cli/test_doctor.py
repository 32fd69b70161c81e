"""`hermes doctor`, as a person and as a script sees it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hermes_cli.main import hermes as command
from hermes_config.places import Home
from tests.hermes_cli.running import ROOT, hermes

TOKEN = "123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw9"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))  # neither a unit nor files of the developer's
    monkeypatch.setenv("MESSAGING_CWD", str(tmp_path))
    Home(tmp_path / "home").prepare()
    return tmp_path / "home"


def run(*arguments: str, colour: bool = False) -> Result:
    return CliRunner().invoke(command, ["doctor", *arguments], color=colour)


def test_as_a_person_runs_it(home: Path) -> None:
    shown = hermes("doctor")
    assert (shown.returncode, shown.stderr) == (0, "")
    lines = shown.stdout.splitlines()
    assert lines[0] == "Machine"
    assert f"  ✓ The home is {home}" in lines
    place = lines.index("  ! The gateway is not running")
    assert lines[place + 1] == "      hermes gateway run"
    assert lines[-1].startswith("0 to fix, ")
    assert list(home.iterdir()) == []


def test_what_is_bad_is_red_and_fails(home: Path) -> None:
    (home / "config.yaml").write_text("access:\n  allow_all_users: true\n")
    for arguments in ((), ("--security",)):
        shown = run(*arguments, colour=True)
        assert shown.exit_code == 1
        assert "\x1b[31m✗\x1b[0m ANYBODY can talk to the bot" in shown.stdout
        assert "hermes config set access.allow_all_users false" in shown.stdout
    assert "\x1b[" not in run().stdout


def test_for_scripts(home: Path) -> None:
    shown = run("--security", "--json")
    told = json.loads(shown.stdout)
    assert list(told) == ["findings", "worst"]
    assert {tuple(finding) for finding in told["findings"]} == {("level", "part", "text", "fix")}
    assert (told["worst"], shown.exit_code) == ("warn", 0)
    (home / ".env").write_text(f"TELEGRAM_BOT_TOKEN={TOKEN}\n")
    (home / ".env").chmod(0o644)
    shown = run("--security", "--json")
    assert (json.loads(shown.stdout)["worst"], shown.exit_code) == ("bad", 1)


@pytest.mark.parametrize("arguments", [(), ("--security",), ("--security", "--json")])
def test_a_secret_is_never_printed(home: Path, arguments: tuple[str, ...]) -> None:
    (home / ".env").write_text(f"TELEGRAM_BOT_TOKEN={TOKEN}\n")
    for name in ("config.yaml", "SOUL.md", "AGENTS.md"):
        (home / name).write_text(f"TELEGRAM_BOT_TOKEN: {TOKEN}\n")
    shown = run(*arguments)
    assert shown.exit_code == 1
    assert "TELEGRAM_BOT_TOKEN" in shown.output
    assert all(TOKEN[start : start + 6] not in shown.output for start in range(len(TOKEN) - 6))


def test_the_home_of_another_program_is_told_and_left_alone(home: Path) -> None:
    (home / "state.db").write_bytes(b"SQLite format 3\0" + b"\0" * 4080)
    shown = run("--json")
    assert shown.exit_code == 1
    assert "belongs to another program" in shown.stdout
    assert [path.name for path in home.iterdir()] == ["state.db"]


def test_live_asks_only_when_told_to(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TELEGRAM_BOT_TOKEN", TOKEN)
    monkeypatch.setenv("TELEGRAM_API_URL", "http://127.0.0.1:1")
    assert "cannot be reached" not in run().stdout
    assert "telegram cannot be reached: ClientConnectorError" in run("--live").stdout


def test_help_imports_nothing_heavy() -> None:
    probe = (
        "import sys\nfrom hermes_cli.main import hermes\n"
        "hermes.main(['doctor', '--help'], standalone_mode=False)\nprint(*sys.modules, file=sys.stderr)"
    )
    asked = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True, cwd=ROOT)
    assert not {"pydantic", "structlog", "aiohttp", "asyncio", "sqlite3"} & set(asked.stderr.split())


def test_a_token_in_a_wrong_place_is_not_shown_by_what_is_said_of_it(home: Path) -> None:
    key = "sk-" + "a1B2" * 10
    (home / "config.yaml").write_text(f"access:\n  allowed_users: ['{TOKEN}']\nbudgets:\n  user_tokens: {key}\n")
    shown = run().output
    assert "config.yaml line 2: access.allowed_users '[hidden]' looks like a user name" in shown
    assert "config.yaml line 4: budgets.user_tokens is '[hidden]'" in shown
    assert TOKEN not in shown
    assert key not in shown
