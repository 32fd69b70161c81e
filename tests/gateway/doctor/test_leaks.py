"""Secrets where they do not belong, found and never shown."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.doctor import files
from gateway.doctor.facts import Finding
from tests.gateway.doctor.scene import facts_of

TOKEN = "123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw_"[:45]
KNOWN = {"TELEGRAM_BOT_TOKEN": TOKEN, "SUDO_PASSWORD": "abc"}
SLACK, OPENAI = "xoxb-" + "1234567890-" * 3, "sk-" + "a1B2" * 10


def in_files(root: Path) -> list[Finding]:
    return list(files.find_secrets_in_files(facts_of(root, secrets=KNOWN)))


@pytest.mark.parametrize(
    "name", ["config.yaml", "config.yaml.bak", "SOUL.md", "AGENTS.md", "logs/a.log", "skills/x/SKILL.md"]
)
def test_a_token_of_ours_is_found_with_its_line(root: Path, name: str) -> None:
    file = root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"first\ntoken: {TOKEN}\n")
    [finding] = in_files(root)
    assert (finding.level, finding.text) == ("bad", f"{file} line 2 contains TELEGRAM_BOT_TOKEN")
    assert finding.fix.endswith("hermes config set TELEGRAM_BOT_TOKEN")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (f"Authorization: Bearer {OPENAI}", "an API key"),
        (f"slack: {SLACK}", "a Slack token"),
        ("987654321:" + "Z" * 35, "a Telegram bot token"),
        ("M" + "a" * 24 + "." + "b" * 6 + "." + "c" * 30, "a Discord bot token"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----", "a private key"),
        ("glpat-Qm7vT2xK9pLr4WzB8nYc", "a secret"),
    ],
)
def test_what_looks_like_a_secret_of_somebody_is_found(root: Path, text: str, what: str) -> None:
    (root / "SOUL.md").write_text(text)
    [finding] = in_files(root)
    assert finding.text == f"{root / 'SOUL.md'} line 1 contains what looks like {what}"
    assert text not in finding.text + finding.fix


@pytest.mark.parametrize("text", ["sk-short", "at 12:34:56 the abc", "xoxb is a prefix", "model: o3-mini"])
def test_ordinary_words_are_left_alone(root: Path, text: str) -> None:
    (root / "SOUL.md").write_text(text)
    assert [finding.level for finding in in_files(root)] == ["ok"]


def test_the_secrets_themselves_may_stand_in_env(root: Path) -> None:
    (root / ".env").write_text(f"TELEGRAM_BOT_TOKEN={TOKEN}\n")
    assert [finding.level for finding in in_files(root)] == ["ok"]


def test_the_end_of_a_long_log_is_read(root: Path) -> None:
    (root / "logs").mkdir()
    (root / "logs" / "gateway.log").write_bytes(b"x" * 5_000_000 + TOKEN.encode())
    [finding] = in_files(root)
    assert finding.text == f"The end of {root / 'logs' / 'gateway.log'} contains TELEGRAM_BOT_TOKEN"


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("Environment=SLACK_APP_TOKEN_WORK=xapp", "SLACK_APP_TOKEN_WORK"),
        (f"ExecStart=/bin/hermes {TOKEN}", "TELEGRAM_BOT_TOKEN"),
        ("Environment=HERMES_HOME=/srv/hermes", ""),
    ],
)
@pytest.mark.parametrize("dropped_in", [False, True])
def test_a_unit_is_no_place_for_a_secret(root: Path, line: str, named: str, dropped_in: bool) -> None:
    unit = root / "hermes-gateway.service"
    unit.touch()
    file = root / "hermes-gateway.service.d" / "own.conf" if dropped_in else unit
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"[Service]\n{line}\n")
    found = list(files.find_secrets_in_units(facts_of(root, secrets=KNOWN, units=(unit,))))
    assert [one.text.partition(",")[0] for one in found] == ([f"{file} contains {named}"] if named else [])
    assert TOKEN not in str(found)


@pytest.fixture
def started_with_a_token() -> Iterator[int]:
    waiting = [sys.executable, "-c", "import sys; print('here', flush=True); sys.stdin.read()", TOKEN]
    with subprocess.Popen(waiting, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.communicate()


@pytest.mark.skipif(sys.platform != "linux", reason="the process list is read from /proc")
def test_the_process_list_is_no_place_either(root: Path, started_with_a_token: int) -> None:
    found = list(
        files.find_secrets_in_process_list(facts_of(root, secrets=KNOWN, gateway={"pid": started_with_a_token}))
    )
    assert [one.level for one in found] == ["bad"]
    assert "with TELEGRAM_BOT_TOKEN in its arguments" in found[0].text
    assert list(files.find_secrets_in_process_list(facts_of(root, secrets=KNOWN, gateway={"pid": 2**30}))) == []


def test_a_copy_of_env_is_worth_a_look(root: Path) -> None:
    (root / ".env").touch()
    (root / ".env.bak").touch()
    [finding] = files.find_env_copies(facts_of(root))
    assert (finding.level, finding.fix) == ("warn", f"rm {root / '.env.bak'}")


@pytest.mark.parametrize(("mode", "levels"), [(0o644, ["bad"]), (0o600, [])])
def test_an_env_file_in_the_working_folder(root: Path, tmp_path: Path, mode: int, levels: list[str]) -> None:
    (tmp_path / ".env").write_text(f"TELEGRAM_BOT_TOKEN={TOKEN}\n")
    (tmp_path / ".env").chmod(mode)
    facts = facts_of(root, {"terminal": {"cwd": str(tmp_path)}}, secrets=KNOWN)
    assert [one.level for one in files.find_env_copies(facts)] == levels


def test_many_trajectories_hide_no_secret_in_what_is_obeyed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.doctor.files._MAX_FILES", 10)
    (root / "trajectories").mkdir()
    for number in range(20):
        (root / "trajectories" / str(number)).touch()
    (root / "SOUL.md").write_text(OPENAI)
    assert [finding.level for finding in in_files(root)] == ["bad"]
