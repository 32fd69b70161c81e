"""`hermes update`, `uninstall` and `model`, and the files for other ways to run the gateway."""

import json
import plistlib
from pathlib import Path

import pytest
from click.testing import CliRunner
from ruamel.yaml import YAML

from hermes_cli import installation
from hermes_cli.main import hermes
from tests.hermes_cli.running import ROOT
from tests.hermes_cli.systemd import UNIT, StandIn


def run(*words: str, fails: bool = False) -> str:
    result = CliRunner().invoke(hermes, words)
    assert (result.exit_code != 0) == fails, result.output
    return result.output


@pytest.mark.parametrize(
    ("mark", "kind", "first"),
    [
        ("pipx_metadata.json", "pipx", "pipx upgrade hermes-gateway"),
        ("uv-receipt.toml", "uv", "uv tool upgrade hermes-gateway"),
        ("", "pip", "bin/python -m pip install --upgrade hermes-gateway"),
    ],
)
def test_the_program_is_updated_by_what_installed_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mark: str, kind: str, first: str
) -> None:
    monkeypatch.setattr(installation, "_find_checkout", lambda: None)
    if mark:
        (tmp_path / mark).touch()
    found = installation.find_installation(tmp_path)
    assert found.kind == kind
    assert " ".join(found.update[0]).endswith(first)


def test_a_checkout_is_pulled(home: Path) -> None:
    told = run("update", "--dry-run")
    assert f"installed as a checkout in {ROOT}" in told
    assert f"git -C {ROOT} pull --ff-only" in told
    assert "config migrate" in told
    assert not home.exists()


def test_an_update_copies_the_database_and_runs_each_step(
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    systemd: StandIn,
) -> None:
    run("chat", "-q", "hello")
    (tmp_path / "config" / UNIT).parent.mkdir(parents=True)
    (tmp_path / "config" / UNIT).write_text("[Service]\n")
    done = installation.Installation("pip", (("echo", "newest"),), "pip uninstall")
    monkeypatch.setattr(installation, "find_installation", lambda: done)
    told = run("update", "--yes")
    assert f"The database is copied to {home}/backups/state-" in told
    assert systemd.take_calls() == ["systemctl --user restart hermes-gateway"]
    failing = installation.Installation("pip", (("false",),), "pip uninstall")
    monkeypatch.setattr(installation, "find_installation", lambda: failing)
    assert "This failed: false" in run("update", "--yes", fails=True)
    assert systemd.take_calls() == []
    missing = installation.Installation("pipx", (("no-such-program",),), "pipx uninstall")
    monkeypatch.setattr(installation, "find_installation", lambda: missing)
    assert "installed with no-such-program, which is not on the path" in run("update", "--yes", fails=True)


def test_uninstalling_keeps_the_data_unless_told_otherwise(
    home: Path,
    tmp_path: Path,
    systemd: StandIn,
) -> None:
    run("chat", "-q", "hello")
    unit = tmp_path / "config" / UNIT
    unit.parent.mkdir(parents=True)
    unit.write_text("[Service]\n")
    assert "remove the service" in run("uninstall", "--dry-run")
    assert unit.exists()
    assert "there is no terminal to ask you at" in run("uninstall", fails=True)
    assert f"stay in {home}" in run("uninstall", "--yes")
    assert not unit.exists()
    assert systemd.take_calls() == ["systemctl --user disable --now hermes-gateway", "systemctl --user daemon-reload"]
    assert (home / "state.db").exists()
    run("uninstall", "--data", "--yes")
    assert not home.exists()
    assert "To remove the program" in run("uninstall", "--data", "--yes")


def test_a_foreign_folder_is_never_deleted(home: Path) -> None:
    home.mkdir()
    (home / "thesis.txt").write_text("mine")
    run("uninstall", "--data", "--yes", fails=True)
    assert (home / "thesis.txt").read_text() == "mine"


def test_the_model_is_shown_listed_and_changed(home: Path) -> None:
    assert "Model: demo" in run("model")
    assert run("model", "--list").splitlines() == ["demo"]
    assert not home.exists()
    refused = run("model", "local/llama", fails=True)
    assert "The model stays demo" in refused
    run("model", "local/llama", "--no-check")
    assert YAML(typ="safe").load((home / "config.yaml").read_text())["model"]["name"] == "local/llama"
    assert "Model: local/llama" in run("model")


def test_the_files_for_launchd_and_containers_are_sound() -> None:
    agent = plistlib.loads((ROOT / "deploy" / "hermes-gateway.plist").read_bytes())
    assert agent["ProgramArguments"][1:] == ["gateway", "run"]
    assert agent["Umask"] == 0o077
    [service] = YAML(typ="safe").load((ROOT / "deploy" / "compose.yaml").read_text())["services"].values()
    assert service["volumes"] == ["hermes:/data"]
    assert service["cap_drop"] == ["ALL"]
    built = (ROOT / "deploy" / "Dockerfile").read_text()
    copied = [
        word for line in built.splitlines() if line.startswith("COPY requirements") for word in line.split()[1:-1]
    ]
    assert all((ROOT / name).is_file() for name in copied)
    assert built.index("USER hermes") < built.index("ENTRYPOINT")
    assert json.loads(built.partition("CMD ")[2].partition("\n")[0])[0] == "python"
