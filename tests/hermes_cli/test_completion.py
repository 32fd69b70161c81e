"""`hermes completion`, and the names that need no longer words."""

import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from hermes_cli.main import hermes


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell_is_one_that_it_can_read(shell: str, tmp_path: Path) -> None:
    printed = CliRunner().invoke(hermes, ["completion", shell])
    assert printed.exit_code == 0
    assert f"_HERMES_COMPLETE={shell}_complete" in printed.stdout
    if program := shutil.which(shell):
        (tmp_path / "script").write_text(printed.stdout)
        assert subprocess.run([program, "-n", str(tmp_path / "script")], check=False).returncode == 0


def test_a_beginning_is_completed_with_the_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    answered = CliRunner(env={"_HERMES_COMPLETE": "bash_complete", "COMP_WORDS": "hermes st", "COMP_CWORD": "1"})
    shown = answered.invoke(hermes, [], prog_name="hermes", complete_var="_HERMES_COMPLETE")
    assert shown.stdout.splitlines() == ["plain,state", "plain,status"]


def test_an_unknown_shell_is_wrong_usage() -> None:
    assert CliRunner().invoke(hermes, ["completion", "csh"]).exit_code == 2


def test_the_log_has_a_short_name() -> None:
    assert "--follow" in CliRunner().invoke(hermes, ["logs", "--help"]).stdout


def test_watching_shows_the_status_until_ctrl_c(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses = iter([None, None])

    def pause(seconds: float) -> None:
        if next(pauses, "end") == "end":
            raise KeyboardInterrupt

    monkeypatch.setattr("hermes_cli.status.time.sleep", pause)
    shown = CliRunner().invoke(hermes, ["status", "--watch"])
    assert shown.exit_code == 1
    assert shown.stdout.count("Gateway   not running") == 3
    assert CliRunner().invoke(hermes, ["status", "--watch", "--json"]).exit_code == 2
