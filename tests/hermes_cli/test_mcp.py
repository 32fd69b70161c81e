"""`hermes mcp`: added, tested, listed and removed, with sentences that say what is wrong."""

import json
import sys
from pathlib import Path

import pytest

from tests.hermes_cli.running import hermes
from tests.tools.mcp.test_hub import ROUGH

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(autouse=True)
def _in_home(home: Path, made: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_HOME", str(home))


def test_a_server_is_added_tested_listed_and_removed(home: Path) -> None:
    added = hermes("mcp", "add", "rough", "--timeout", "20", "--", sys.executable, str(ROUGH), "names")
    assert added.returncode == 0, added.stderr
    assert "Try it: hermes mcp test rough" in added.stdout
    again = hermes("mcp", "add", "rough", "x")
    assert again.returncode == 2
    assert "There is a server rough already. Remove it first: hermes mcp remove rough" in again.stderr
    hermes("mcp", "add", "docs", "--url", "https://127.0.0.1:9/mcp", "--header", "Authorization=Bearer ${DOCS_TOKEN}")
    tested = hermes("mcp", "test", "rough")
    assert tested.returncode == 0, tested.stderr
    assert "mcp_rough_fine" in tested.stdout
    assert "many.dots is called mcp_rough_many_dots" in tested.stdout
    assert "rough works and offers 4 tools." in tested.stdout
    failed = hermes("mcp", "test", "docs", "--json")
    assert failed.returncode == 1
    assert json.loads(failed.stdout)["state"] == "failed"
    assert "docs does not work: DOCS_TOKEN is not set. Put DOCS_TOKEN=… into .env" in failed.stderr
    listed = json.loads(hermes("mcp", "list", "--json").stdout)
    assert [(one["name"], one["transport"], one["state"]) for one in listed] == [
        ("rough", "stdio", "not running"),
        ("docs", "http", "not running"),
    ]
    assert "mcp_docs_*" in hermes("tools").stdout
    assert "The MCP server docs does not work: DOCS_TOKEN is not set" in hermes("doctor").stdout
    removed = hermes("mcp", "remove", "docs")
    assert removed.returncode == 0, removed.stderr
    assert "docs" not in hermes("mcp", "list").stdout
    assert "There is no MCP server docs. There are: rough." in hermes("mcp", "test", "docs").stderr


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("{a b: {command: x}}", "'a b' is not a name for a server"),
        ("{a: {}}", "the server 'a' needs either a command or a url"),
        ("{a: {command: x, url: 'http://127.0.0.1'}}", "needs either a command or a url"),
        ("{a: {command: x, alow: [y]}}", "the server 'a' has wrong keys: alow"),
        ("{a: {command: x, timeout: 0}}", "timeout (Input should be greater than 0)"),
        ("{a: text}", "the server 'a' needs either a command or a url"),
    ],
)
def test_a_wrong_entry_is_named_with_file_and_line(home: Path, entry: str, problem: str) -> None:
    (home / "config.yaml").write_text(f"mcp:\n  servers: {entry}\n")
    checked = hermes("config", "check")
    assert checked.returncode == 1
    assert problem in checked.stdout + checked.stderr
    assert "config.yaml line 2: mcp.servers" in checked.stdout + checked.stderr
