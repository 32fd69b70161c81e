"""The door: names, exit codes, and failures in one sentence."""

import re
from pathlib import Path

import pytest

from gateway.lock import hold_home
from tests.hermes_cli.running import cold_hermes, hermes


def test_the_version_is_a_command_and_an_option() -> None:
    run = cold_hermes("version")
    assert run.returncode == 0
    assert re.fullmatch(r"hermes \d+\.\d+\.\d+\S*\n", run.stdout)
    assert hermes("--version").stdout == run.stdout


def test_help_is_a_command_too(home: Path) -> None:
    assert hermes("help").stdout == hermes("--help").stdout
    assert hermes("help", "chat").stdout == hermes("chat", "--help").stdout
    assert hermes("help", "pairing", "invite").stdout == hermes("pairing", "invite", "--help").stdout
    assert not home.exists()


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ("help gatway", "There is no command 'gatway'. Did you mean `hermes gateway`?"),
        ("help chat loudly", "chat` has no subcommands."),
        ("help pairing loudly", "loudly"),
        ("gatway", "There is no command 'gatway'. Did you mean `hermes gateway`?"),
        ("xyzzy", "There is no command 'xyzzy'. `hermes --help` lists the commands."),
    ],
)
def test_an_unknown_command_gets_the_nearest(typed: str, hint: str, home: Path) -> None:
    run = hermes(*typed.split())
    assert (run.returncode, run.stdout) == (2, "")
    assert hint in run.stderr
    assert not home.exists()


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        ("usage", 0, "Nothing was used since"),
        ("usage --by person --json", 0, '"rows": []'),
        ("sessions list", 0, "No conversations yet."),
        ("sessions list --json", 0, "[]"),
        ("sessions search lighthouse", 0, "Nothing found."),
        ("sessions show 2026", 1, "No session, or more than one, matches '2026'"),
        ("forget telegram:123456789", 0, "Nothing is stored about telegram:123456789."),
        ("forget telegram:ada", 1, "'ada' is no id"),
        ("trace", 1, "No message has reached this home"),
        ("approvals list", 0, "No approval request is waiting.\n\nNo rules were granted.\n"),
        ("approvals list --json", 0, '{\n  "waiting": [],\n  "granted": []\n}'),
        ("pairing list", 0, "Nobody is waiting for approval.\n"),
        ("pairing list --json", 0, '"pending": []'),
        ("status", 1, ""),
        ("doctor", 0, ""),
        ("tools", 0, "terminal"),
    ],
)
def test_a_question_makes_no_home(command: str, code: int, words: str, home: Path) -> None:
    run = hermes(*command.split())
    assert run.returncode == code, run.stderr
    assert words in run.stdout + run.stderr
    assert not home.exists()


def test_a_second_gateway_names_the_first_and_leaves(home: Path) -> None:
    home.mkdir()
    (home / "config.yaml").write_text("platforms: {web: {enabled: false}}\n")
    with hold_home(home / "gateway.lock") as lock:
        lock.tell({"pid": 4242, "state": "serving"})
        run = cold_hermes("gateway")
    assert (run.returncode, run.stdout) == (1, "")
    assert f"Error: Another gateway (pid 4242) is running in {home}." in run.stderr
    assert "Traceback" not in run.stderr


@pytest.mark.parametrize("command", ["gateway run", "chat -q hello", "status", "sessions list"])
def test_the_home_of_another_program_is_refused_untouched(command: str, home: Path) -> None:
    home.mkdir(mode=0o755)
    (home / "state.db").write_bytes(b"SQLite format 3\0" + b"\0" * 4080)
    (home / "auth.json").write_text("{}")
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in home.iterdir()}
    mode = home.stat().st_mode
    run = hermes(*command.split())
    assert (run.returncode, run.stdout) == (1, "")
    assert "belongs to another program" in run.stderr
    assert "HERMES_HOME=" in run.stderr
    assert {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in home.iterdir()} == before
    assert home.stat().st_mode == mode


@pytest.mark.parametrize("command", ["gateway run", "chat -q hello", "status"])
def test_a_broken_config_is_one_sentence_with_its_line(command: str, home: Path) -> None:
    home.mkdir()
    (home / "config.yaml").write_text("gateway:\n  max_turns: many\n")
    run = hermes(*command.split())
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr.startswith("Error: ")
    assert "config.yaml" in run.stderr
    assert "line 2" in run.stderr
    assert "max_turns" in run.stderr
    assert "Traceback" not in run.stderr


def test_a_warning_about_settings_does_not_disturb_the_answer(home: Path) -> None:
    home.mkdir()
    (home / "config.yaml").write_text("gatway:\n  max_turns: 5\n")
    run = cold_hermes("chat", "-q", "what is 17 * 23?")
    assert (run.returncode, run.stdout) == (0, "17 * 23 = 391\n")
    assert run.stderr.startswith("Warning: ")
