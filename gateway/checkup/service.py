"""The running gateway: is it there, does it hear, does it come back after a restart of the machine."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from gateway.checkup.facts import Facts
from gateway.checkup.finding import Finding, bad, ok, warn
from gateway.checkup.gather import SYSTEM_UNITS, UNIT
from gateway.clock import roughly
from hermes_config.accounts import bots
from hermes_config.secrets import SECRETS

PART = "gateway"
SERVICE = "service"

_SILENT_MS = 15_000  # it tells its state every second


def gateway(facts: Facts) -> Iterator[Finding]:
    running = facts.gateway
    if running is None:
        yield warn(PART, "No gateway is running", _start(facts))
        return
    silent_ms = facts.now_ms - int(running.get("told_ms", facts.now_ms))
    pid = running.get("pid", "unknown")
    if silent_ms > _SILENT_MS:
        text = f"The gateway (pid {pid}) has told nothing for {roughly(silent_ms)}: it hangs, or its disk does"
        yield bad(PART, text, "stop it, and start it again: hermes gateway run")
    elif problem := running.get("store"):
        yield bad(PART, f"The gateway (pid {pid}) takes no messages: {problem}", "hermes status")
    else:
        yield ok(PART, f"The gateway is {running.get('state', 'there')}, pid {pid}")


def platforms(facts: Facts) -> Iterator[Finding]:
    if facts.gateway is None:
        return
    heard = dict(facts.gateway.get("platforms", {}))
    for account, platform in heard.items():
        yield _hearing(facts, account, platform)
    names = (name for name, _ in facts.settings.platforms if any(name in one.enables for one in SECRETS))
    for account in (account for name in names for account in bots(facts.settings, name)):
        if account not in heard:
            text = (
                f"{account} is set up, and the running gateway does not know it: it reads its settings when it starts"
            )
            yield warn(PART, text, "restart the gateway")


def model(facts: Facts) -> Iterator[Finding]:
    told = dict((facts.gateway or {}).get("model", {}))
    if problem := told.get("problem"):
        yield bad(PART, f"The model {told.get('name', '')} did not answer last time: {problem}", "hermes config check")
    elif answered_ms := told.get("answered_ms"):
        yield ok(PART, f"The model {told.get('name', '')} answered {roughly(facts.now_ms - answered_ms)} ago")


def units(facts: Facts) -> Iterator[Finding]:
    for unit in facts.units:
        program = _program(unit)
        if program and not os.access(program, os.X_OK):
            yield bad(SERVICE, f"{unit} starts {program}, which is not there", f"put the path of hermes into {unit}")
        elif not any(unit.parent.glob(f"*.wants/{UNIT}")):
            yield warn(SERVICE, f"{unit} does not start by itself", f"systemctl {_user(unit)}enable --now {unit.stem}")
        else:
            yield ok(SERVICE, f"{unit} starts by itself")
    if any(map(_user, facts.units)) and not facts.lingers:
        yield warn(SERVICE, "The service stops when you log out", "loginctl enable-linger")


def _hearing(facts: Facts, account: str, platform: dict[str, object]) -> Finding:
    state, problem = platform.get("state"), platform.get("problem")
    last_ms = platform.get("last_heard_ms")
    heard = f", last heard {roughly(facts.now_ms - last_ms)} ago" if isinstance(last_ms, int) and last_ms else ""
    if state == "connected":
        return ok(PART, f"{account} is connected{heard}")
    text = f"{account} is not connected{heard}: {problem or state}"
    if state != "needs operator":
        return warn(PART, f"{text}; it is tried again by itself", "hermes status")
    name, _, bot = account.partition("@")
    token = next((one for one in SECRETS if one.per_account and name in one.enables), None)
    env = token.env_of(bot) if token and bot else token.env if token else ""
    return bad(PART, text, f"hermes config set {env}, then restart the gateway" if env else "hermes status")


def _start(facts: Facts) -> str:
    return f"systemctl {_user(facts.units[0])}start {facts.units[0].stem}" if facts.units else "hermes gateway run"


def _user(unit: Path) -> str:
    return "" if unit.parent == SYSTEM_UNITS else "--user "


def _program(unit: Path) -> str:
    """What it starts; empty where that cannot be told from the file alone."""
    found = re.search(r"^ExecStart=[-@:+!]*(\S+)", unit.read_text(errors="replace"), re.M)
    program = found[1].replace("%h", str(Path.home())) if found else ""
    return program if program.startswith("/") and "%" not in program else ""
