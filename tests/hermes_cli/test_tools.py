"""`hermes tools`."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from hermes_cli.tools import tools


def test_every_tool_is_listed_with_why_it_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_AGENT__DISABLED_TOOLSETS", "todo")
    listed = json.loads(CliRunner().invoke(tools, ["list", "--json"]).stdout)
    off = {row["name"]: row["off_because"] for row in listed["tools"]}
    assert off["clock"] == ""
    assert off["todo"] == "toolset todo is disabled"


def test_a_broken_file_of_the_user_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "home" / "tools"
    folder.mkdir(parents=True, mode=0o700)
    (folder / "mine.py").write_text("import nothing_of_that_name")
    printed = CliRunner().invoke(tools).stdout
    assert "bad  tools/mine.py: ModuleNotFoundError" in printed
    assert "on   clock" in printed


def test_an_unknown_toolset_is_refused_with_the_nearest_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_AGENT__ENABLED_TOOLSETS", "coree")
    refused = CliRunner().invoke(tools)
    assert refused.exit_code == 1
    assert "Did you mean 'core'?" in refused.output
