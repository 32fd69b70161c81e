"""The running gateway and its unit, as the doctor tells them."""

from pathlib import Path
from typing import Any

import pytest

from gateway.doctor import service
from gateway.doctor.facts import SYSTEM_UNITS, gather
from gateway.lock import hold_home
from hermes_config.places import Home
from tests.gateway.doctor.scene import NOW_MS, facts_of, run_check

RUNNING: dict[str, Any] = {"pid": 7, "state": "serving", "told_ms": NOW_MS - 500, "store": ""}


def test_none_is_running(root: Path) -> None:
    [finding] = service.check_gateway(facts_of(root))
    assert (finding.level, finding.fix) == ("warn", "hermes gateway run")
    [finding] = service.check_gateway(facts_of(root, units=(SYSTEM_UNITS / "hermes-gateway.service",)))
    assert finding.fix == "systemctl start hermes-gateway"


def test_what_a_running_one_tells_is_heard(root: Path) -> None:
    with hold_home(root / "gateway.lock") as lock:
        lock.tell({"state": "serving"})
        facts = gather(Home(root))
    [(level, text)] = run_check(service.check_gateway, facts)
    assert (level, text.startswith("The gateway is serving, pid ")) == ("ok", True)


@pytest.mark.parametrize(
    ("changed", "words"),
    [({"told_ms": NOW_MS - 60_000}, "has not reported for 1 min"), ({"store": "the disk is full"}, "the disk is full")],
)
def test_one_that_hangs_or_takes_nothing_is_bad(root: Path, changed: dict[str, Any], words: str) -> None:
    [(level, text)] = run_check(service.check_gateway, facts_of(root, gateway=RUNNING | changed))
    assert level == "bad"
    assert words in text


@pytest.mark.parametrize(
    ("state", "level", "fix"),
    [
        ("connected", "ok", ""),
        ("waiting", "warn", "hermes status"),
        ("needs operator", "bad", "hermes config set TELEGRAM_BOT_TOKEN_WORK, then restart the gateway"),
    ],
)
def test_each_platform(root: Path, state: str, level: str, fix: str) -> None:
    platform = {"state": state, "problem": "why", "last_heard_ms": NOW_MS - 3000}
    facts = facts_of(root, gateway=RUNNING | {"platforms": {"telegram@work": platform}})
    [finding] = service.check_platforms(facts)
    assert (finding.level, finding.fix) == (level, fix)
    assert "last contact 3 s ago" in finding.text


def test_a_bot_that_was_set_up_after_the_start_is_missing(root: Path) -> None:
    facts = facts_of(root, {"secrets": {"telegram_bot_token": "1:a"}}, gateway=RUNNING)
    [(level, text)] = run_check(service.check_platforms, facts)
    assert (level, "after the gateway started" in text) == ("warn", True)


def test_the_model_as_the_gateway_knows_it(root: Path) -> None:
    told_by = [{"name": "gpt-5", "problem": "refused"}, {"name": "gpt-5", "answered_ms": NOW_MS - 1000}, {}]
    found = [run_check(service.check_model, facts_of(root, gateway=RUNNING | {"model": model})) for model in told_by]
    assert [[level for level, _ in each] for each in found] == [["bad"], ["ok"], []]


def test_a_unit_that_starts_what_is_not_there(root: Path) -> None:
    unit = root / "hermes-gateway.service"
    unit.write_text(f"[Service]\nExecStart={root}/bin/hermes gateway run\n")
    bad, lingering = service.check_units(facts_of(root, units=(unit,)))
    assert (bad.level, "which does not exist" in bad.text) == ("bad", True)
    assert (lingering.level, lingering.fix) == ("warn", "loginctl enable-linger")


def test_a_unit_that_is_on(root: Path) -> None:
    unit = root / "hermes-gateway.service"
    unit.write_text("[Service]\nExecStart=/bin/sh -c true\n")
    [off] = service.check_units(facts_of(root, units=(unit,), lingers=True))
    assert (off.level, off.fix) == ("warn", "systemctl --user enable --now hermes-gateway")
    (root / "default.target.wants").mkdir()
    (root / "default.target.wants" / unit.name).symlink_to(unit)
    assert [one.level for one in service.check_units(facts_of(root, units=(unit,), lingers=True))] == ["ok"]


def test_the_unit_of_this_user_is_found(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unit = root / "config" / "systemd" / "user" / "hermes-gateway.service"
    unit.parent.mkdir(parents=True)
    unit.touch()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(root / "config"))
    assert unit in gather(Home(root)).units
