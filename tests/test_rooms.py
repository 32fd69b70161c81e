"""The project's own shape, as far as import-linter cannot see it."""

import os
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from gateway.store.db.prepare import BackupPolicy, prepare
from hermes_config.places import Home

ROOT = Path(__file__).parent.parent
ROOMS = {
    "hermes_cli",
    "gateway",
    "environments",
    "agent_core",
    "skills",
    "tools",
    "hooks",
    "hermes_config",
    "playground",
}


def test_every_package_is_a_room_that_the_contracts_know() -> None:
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests"}
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    assert packages == ROOMS == set(contracts["root_packages"])


def test_the_core_install_is_small() -> None:
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    assert sum("==" in line for line in lines) <= 50


def test_help_imports_nothing_heavy() -> None:
    heavy = {
        "pydantic",
        "aiosqlite",
        "structlog",
        "ruamel.yaml",
        "asyncio",
        "telegram",
        "discord",
        "slack_sdk",
        "openai",
        "tree_sitter",
        "markdown_it",
    }
    probe = (
        "import sys\nfrom hermes_cli.main import hermes\n"
        "hermes.main(['--help'], standalone_mode=False)\nprint(*sys.modules, file=sys.stderr)"
    )
    run = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True, cwd=ROOT)
    assert not heavy & set(run.stderr.split())


@pytest.mark.parametrize(
    "command", [("status",), ("pairing", "list"), ("sessions", "list"), ("sessions", "search", "milk")]
)
def test_commands_that_only_look_import_no_gateway(tmp_path: Path, command: tuple[str, ...]) -> None:
    heavy = {
        "aiohttp",
        "discord",
        "openai",
        "pypdf",
        "ruamel.yaml",
        "structlog",
        "slack_sdk",
        "telegram",
        "tree_sitter",
        "agent_core.models.factory",
        "agent_core.turn",
        "gateway.platforms",
        "gateway.store.db.database",
        "gateway.turns.responder",
        "gateway.wiring.app",
        "tools.loading",
        "tools.shell_guard.guard",
        "tools.shell_guard.syntax",
    }
    Home(tmp_path).prepare()
    prepare(tmp_path / "state.db", BackupPolicy(backups=tmp_path / "backups"), repair=False)
    probe = "import sys\nfrom hermes_cli.main import hermes\nhermes.main(sys.argv[1:], standalone_mode=False)\n"
    printing = "import atexit, sys\natexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"
    run = subprocess.run(
        [sys.executable, "-c", printing + probe, *command],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=os.environ | {"HERMES_HOME": str(tmp_path)},
    )
    imported = set(run.stderr.split())
    assert "gateway.store.inspect" in imported, run.stderr  # it has looked
    assert not heavy & imported


def test_the_gateway_itself_imports_no_http_client_and_no_sdk() -> None:
    """aiohttp costs ten megabytes, which a gateway for the socket alone need not have."""
    probe = "import sys, gateway.wiring.app, gateway.platforms.all\nprint(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True, cwd=ROOT)
    assert not {"aiohttp", "discord", "openai", "slack_sdk", "telegram"} & set(run.stdout.split())


def test_a_connection_beyond_loopback_fails_the_test() -> None:
    with socket.socket() as peer, pytest.raises(RuntimeError, match=r"192\.0\.2\.1"):
        peer.connect(("192.0.2.1", 80))


def test_processes_started_by_tests_are_guarded_too() -> None:
    probe = "import socket; socket.getaddrinfo('example.invalid', 80)"
    run = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=False)
    assert "a test tried to look up" in run.stderr
