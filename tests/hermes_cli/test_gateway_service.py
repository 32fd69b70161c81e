"""`hermes gateway install` and its siblings. There is no systemd in tests: a stand-in on the path takes the calls."""

from pathlib import Path

import pytest

from gateway.doctor import facts
from gateway.lock import read_state
from hermes_cli.service import find_obstacle, render_unit
from tests.gateway.test_systemd import find_complaints
from tests.hermes_cli.running import ROOT, hermes
from tests.hermes_cli.systemd import UNIT, StandIn
from tests.journeys.gateway_process import gateway
from tests.programs import needs


def test_the_life_of_a_service(systemd: StandIn, tmp_path: Path, home: Path) -> None:
    unit = tmp_path / "config" / UNIT
    shown = hermes("gateway", "install", "--dry-run")
    assert (shown.returncode, systemd.take_calls(), unit.exists()) == (0, [], False)
    assert f"# {unit}\n" in shown.stdout
    assert "\nDelegateSubgroup=" not in shown.stdout  # a systemd of that version would warn about it
    assert "# systemctl --user enable hermes-gateway\n" in shown.stdout
    assert not home.exists()

    installed = hermes("gateway", "install")
    assert installed.returncode == 0, installed.stderr
    assert unit.read_text() in shown.stdout
    assert f"Environment=HERMES_HOME={home}\n" in unit.read_text()
    restart = ["daemon-reload", "enable hermes-gateway", "restart hermes-gateway"]
    assert systemd.take_calls() == [*(f"systemctl --user {call}" for call in restart), "loginctl enable-linger"]

    systemd.answer(active="active", version=254)
    assert hermes("gateway", "install").returncode == 0  # again
    assert "\nDelegateSubgroup=gateway\n" in unit.read_text()
    systemd.take_calls()
    for command in ("start", "stop", "restart"):
        assert hermes("gateway", command).returncode == 0
        assert systemd.take_calls() == [f"systemctl --user {command} hermes-gateway"]
    assert hermes("gateway", "status").stdout.startswith(f"Service: active, enabled ({unit})\n")
    assert hermes("gateway", "logs", "-n", "7").returncode == 0
    assert systemd.take_calls() == ["journalctl --user --unit hermes-gateway --lines 7 --output cat --no-pager"]

    assert f"rm {unit}\n" in hermes("gateway", "uninstall", "--dry-run").stdout
    assert (systemd.take_calls(), unit.exists()) == ([], True)
    assert hermes("gateway", "uninstall").returncode == 0
    assert systemd.take_calls() == ["systemctl --user disable --now hermes-gateway", "systemctl --user daemon-reload"]
    assert not unit.exists()


@pytest.mark.parametrize("command", ["start", "restart", "logs", "uninstall"])
def test_without_a_service_the_way_to_one_is_told(systemd: StandIn, command: str) -> None:
    if (facts.SYSTEM_UNITS / facts.UNIT).exists():
        pytest.skip("this machine has a gateway of its own")
    done = hermes("gateway", command)
    assert (done.returncode, done.stdout) == (1, "")
    assert "hermes gateway install" in done.stderr
    assert systemd.take_calls() == []


def test_a_refusal_of_systemd_is_told_with_its_reason(systemd: StandIn) -> None:
    systemd.answer(failing="enable hermes")
    done = hermes("gateway", "install")
    assert done.returncode == 1
    assert "`systemctl --user enable hermes-gateway` failed: no bus" in done.stderr
    assert "--system" in done.stderr
    systemd.answer(failing="enable-linger")
    done = hermes("gateway", "install")
    assert done.returncode == 0
    assert "stops when you log out" in done.stdout


async def test_a_gateway_that_was_started_by_hand_is_in_the_way_and_can_be_stopped(
    systemd: StandIn, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_PLATFORMS__WEB__ENABLED", "false")
    async with gateway(home) as running:
        refused = hermes("gateway", "install")
        assert refused.returncode == 1
        assert f"A gateway (pid {running.pid}) already runs in {home}" in refused.stderr
        assert hermes("gateway", "stop").stdout == "The gateway is stopped.\n"
        assert await running.end() == 0
    assert read_state(home / "gateway.lock") is None
    assert hermes("gateway", "stop").stdout == "The gateway is not running.\n"


def test_the_units_of_the_repository_are_those_that_are_installed() -> None:
    user = render_unit(["%h/.local/bin/hermes"], None, is_system=False).replace("%%h", "%h")
    assert (ROOT / "hermes-gateway.service").read_text() == user
    system = render_unit(["/opt/hermes/bin/hermes"], Path("/var/lib/hermes/home"), is_system=True)
    assert (ROOT / "deploy" / "hermes-gateway.system.service").read_text() == system


def test_a_service_of_the_machine_names_its_user_and_commands(systemd: StandIn) -> None:
    shown = hermes("gateway", "install", "--system", "--dry-run")
    if shown.returncode:  # as where the tests run from a home folder
        assert "cannot see" in shown.stderr
        return
    assert "User=hermes\n" in shown.stdout
    assert "Environment=HERMES_HOME=/var/lib/hermes/home\n" in shown.stdout
    assert "# systemctl enable hermes-gateway\n" in shown.stdout
    assert systemd.take_calls() == []


def test_a_service_of_the_machine_needs_a_program_outside_of_homes() -> None:
    assert "/root/.local/bin/hermes" in find_obstacle(["/root/.local/bin/hermes"], is_system=True)
    assert find_obstacle(["/opt/hermes/bin/hermes"], is_system=True) == ""
    assert find_obstacle(["/root/.local/bin/hermes"], is_system=False) == ""


@needs("systemd")
@pytest.mark.parametrize("is_system", [False, True])
def test_systemd_takes_the_unit_without_a_word(is_system: bool, tmp_path: Path) -> None:
    """Also with a space and a percent sign in every path."""
    folder = tmp_path / "100% mine"
    folder.mkdir()
    program = folder / "hermes"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = tmp_path / "hermes-gateway.service"
    unit.write_text(render_unit([str(program)], folder / "home", is_system=is_system))
    assert find_complaints(unit, "--system" if is_system else "--user") == []
