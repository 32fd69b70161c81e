"""`hermes config edit` and `migrate`: a wrong file is never saved, and the old one is kept."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hermes_cli.main import hermes as command
from tests.hermes_cli.at_a_terminal import AtATerminal
from tests.hermes_cli.running import hermes

MINE = "# mine\n_config_version: 1\ngateway:\n  max_turns: 12  # a dozen\n"
OLD = """\
# mine
terminal:
  backend: local
  bubblewrap_network: false  # none
platforms:
  slack: {accounts: [work]}
"""


@pytest.fixture(autouse=True)
def own_home(home: Path) -> None:
    home.mkdir(mode=0o700)


def edit(folder: Path, monkeypatch: pytest.MonkeyPatch, *commands: str, typed: str = "") -> Result:
    """Run it with an editor that does one of these with sed each time it is opened."""
    turns = "".join(f"{number}) sed -i '{one}' \"$1\";;\n" for number, one in enumerate(commands, start=1))
    editor = folder / "editor"
    editor.write_text(f"#!/bin/sh\necho x >> {folder}/opened\ncase $(wc -l < {folder}/opened) in\n{turns}esac\n")
    editor.chmod(0o755)
    monkeypatch.setenv("EDITOR", str(editor))
    monkeypatch.delenv("VISUAL", raising=False)
    return CliRunner().invoke(command, ["config", "edit"], input=typed)


def test_a_right_change_is_saved(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "config.yaml").write_text(MINE)
    done = edit(tmp_path, monkeypatch, "s/12/13/")
    assert (done.exit_code, done.stdout) == (0, f"{home / 'config.yaml'} is saved.\n")
    assert (home / "config.yaml").read_text() == MINE.replace("12", "13")
    assert (home / "config.yaml").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("wrong", "part"),
    [
        ("s/12/many/", "config.yaml line 4: gateway.max_turns is 'many'"),
        ("s/max_turns: 12/max_turns: [/", "config.yaml line"),
        ("s/version: 1/version: 99/", "newer Hermes"),
        ("s/gateway:/access: {owner: 1}\\n&/", "access.owner"),
    ],
)
def test_a_wrong_one_is_explained_and_edited_again_or_dropped(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: str, part: str
) -> None:
    (home / "config.yaml").write_text(MINE)
    dropped = edit(tmp_path, monkeypatch, wrong, typed="n\n")
    assert dropped.exit_code == 0
    assert part in dropped.stderr
    assert "Nothing was changed." in dropped.stdout
    assert (home / "config.yaml").read_text() == MINE


def test_the_second_try_begins_with_the_first(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "config.yaml").write_text(MINE)
    edit(tmp_path, monkeypatch, "s/12/many/", "s/many/14/", typed="\n")
    assert (home / "config.yaml").read_text() == MINE.replace("12", "14")


def test_what_another_program_wrote_meanwhile_is_not_overwritten(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "config.yaml").write_text(MINE)
    done = edit(tmp_path, monkeypatch, f"s/12/13/; w {home / 'config.yaml'}", typed="n\n")
    assert "changed by another program" in done.stderr
    assert (home / "config.yaml").read_text() == MINE.replace("12", "13")


def test_migrating_keeps_comments_and_a_backup(home: Path) -> None:
    (home / "config.yaml").write_text(OLD)
    (home / ".env").write_text("SLACK_BOT_TOKEN=xoxb-some-token\n")
    (home / ".env").chmod(0o600)
    shown = hermes("config", "migrate", "--dry-run").stdout
    assert "+_config_version: 1\n" in shown
    assert (home / "config.yaml").read_text() == OLD
    done = hermes("config", "migrate")
    assert done.returncode == 0, done.stderr
    new = (home / "config.yaml").read_text()
    assert new.startswith("_config_version: 1\n# mine\nterminal:\n  backend: local\n")
    assert "bubblewrap_network" not in new
    assert '  sandbox:\n    network: "off"\n' in new
    [backup] = home.glob("config.yaml.*.bak")
    assert (backup.read_text(), backup.stat().st_mode & 0o777) == (OLD, 0o600)
    missing = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("Missing: ")]
    assert missing == ["SLACK_BOT_TOKEN_WORK.", "SLACK_APP_TOKEN_WORK.", "SLACK_APP_TOKEN."]
    again = hermes("config", "migrate").stdout
    assert again.startswith("config.yaml is up to date.\n")
    assert len(list(home.glob("config.yaml.*.bak"))) == 1


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("_config_version: 2\n", "newer Hermes"),
        ("gateway: [\n", "YAML"),
        ("gateway: {max_turns: x}\n", "max_turns is 'x'"),
    ],
)
def test_a_file_that_cannot_be_migrated_is_left_alone(home: Path, text: str, part: str) -> None:
    (home / "config.yaml").write_text(text)
    done = hermes("config", "migrate")
    assert (done.returncode, done.stdout) == (1, "")
    assert part in done.stderr
    assert str(home) in done.stderr
    assert [file.name for file in home.iterdir()] == ["config.yaml"]


def test_missing_tokens_are_asked_for_at_a_terminal(home: Path, tmp_path: Path) -> None:
    (home / "config.yaml").write_text("_config_version: 1\nplatforms:\n  telegram: {accounts: [work]}\n")
    with AtATerminal("config", "migrate", cwd=tmp_path, columns=200) as terminal:
        terminal.until("TELEGRAM_BOT_TOKEN_WORK (Enter: later): ")
        terminal.press("42:some-good-token\n")
        assert terminal.leave() == 0
        assert "some-good-token" not in terminal.shown
    assert (home / ".env").read_text() == "TELEGRAM_BOT_TOKEN_WORK=42:some-good-token\n"
