"""Looks around once, for all checks. Whatever cannot be looked at becomes a finding, and the rest goes on."""

import os
import pwd
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import structlog

from gateway.clock import now_ms
from gateway.doctor.facts import Facts, Finding, bad, plain_reason
from gateway.errors import GatewayError
from gateway.lock import read_state
from gateway.store.db.backup import backups
from gateway.store.inspect import StoreSummary, inspect_store
from gateway.store.pairing import PairingLimits
from gateway.wiring.policies import build_pairing_limits
from hermes_config import environment
from hermes_config.accounts import account_tokens
from hermes_config.errors import ConfigError
from hermes_config.load import Loaded, load
from hermes_config.places import Home
from hermes_config.secrets import SECRETS
from tools.workplaces import sandbox_problem

T = TypeVar("T")
log = structlog.get_logger()

UNIT = "hermes-gateway.service"
SYSTEM_UNITS = Path("/etc/systemd/system")
_LINGERING = Path("/var/lib/systemd/linger")


class _Eyes:
    """Remembers what they could not see."""

    def __init__(self) -> None:
        self.unseen: list[Finding] = []

    def see(self, part: str, what: str, glance: Callable[[], T], otherwise: T) -> T:
        try:
            return glance()
        except Exception as error:  # contained: a doctor that falls over at what is ill is of no use
            log.exception("could not be looked at", what=what)
            self.unseen.append(bad(part, f"{what} could not be looked at: {plain_reason(error)}"))
            return otherwise


def gather(home: Home) -> Facts:
    """Never raises. Changes nothing."""
    eyes = _Eyes()
    home_problem = _problem(home.check_ours)
    no_settings: tuple[Loaded | None, str] = (None, "")
    no_look: tuple[StoreSummary | None, str] = (None, "")
    loaded, config_problem = eyes.see("settings", "The settings", lambda: _load(home, home_problem), no_settings)
    limits = build_pairing_limits(loaded.settings) if loaded else PairingLimits()
    seen, store_problem = eyes.see("store", "state.db", lambda: _look(home, home_problem, limits), no_look)
    return Facts(
        home=home,
        now_ms=now_ms(),
        user_id=os.geteuid(),
        home_problem=home_problem,
        config_problem=config_problem,
        loaded=loaded,
        secrets=known_secrets(loaded),
        variables=frozenset(environment.everything()),
        gateway=eyes.see("gateway", "The lock of the home", lambda: _running(home, home_problem), None),
        store_problem=store_problem,
        look=seen,
        backup_ms=eyes.see("store", "The folder of backups", lambda: _backup_times(home), ()),
        units=eyes.see("service", "The files of systemd", _units, ()),
        lingers=eyes.see("service", "Lingering", _lingers, False),
        sandbox_problem=eyes.see("machine", "The sandbox", sandbox_problem, "it could not be tried"),
        has_ripgrep=shutil.which("rg") is not None,
        free_bytes=eyes.see("machine", "The disk", lambda: _free_bytes(home.root), None),
        unseen=tuple(eyes.unseen),
    )


def known_secrets(loaded: Loaded | None = None) -> dict[str, str]:
    """Those that are set, by variable; also while the settings cannot be read."""
    named = {secret.env: environment.lookup(secret.env) for secret in SECRETS if secret.masked}
    tokens = account_tokens(loaded.settings) if loaded else {}
    return {name: value.strip() for name, value in (named | tokens).items() if value.strip()}


def _problem(check: Callable[[], None]) -> str:
    try:
        check()
    except ConfigError as error:
        return str(error)
    return ""


def _load(home: Home, home_problem: str) -> tuple[Loaded | None, str]:
    if home_problem:
        return None, ""
    try:
        return load(home), ""
    except ConfigError as error:
        return None, str(error)


def _look(home: Home, home_problem: str, limits: PairingLimits) -> tuple[StoreSummary | None, str]:
    if home_problem:
        return None, ""  # another program's file is not opened
    try:
        return inspect_store(home.database, limits), ""
    except GatewayError as error:
        return None, str(error)


def _running(home: Home, home_problem: str) -> dict[str, Any] | None:
    return None if home_problem else read_state(home.lock_file)  # reading it takes the lock for a moment


def _backup_times(home: Home) -> tuple[int, ...]:
    return tuple(int(copy.stat().st_mtime * 1000) for copy in backups(home.backups))


def _units() -> tuple[Path, ...]:
    config = Path(environment.get("XDG_CONFIG_HOME") or "~/.config").expanduser()
    places = (config / "systemd" / "user" / UNIT, SYSTEM_UNITS / UNIT)
    return tuple(place for place in places if place.exists())


def _lingers() -> bool:
    return (_LINGERING / pwd.getpwuid(os.geteuid()).pw_name).exists()


def _free_bytes(root: Path) -> int:
    there = next(place for place in (root, *root.parents) if place.exists())
    return shutil.disk_usage(there).free
