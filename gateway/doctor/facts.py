"""Findings, and the facts about a home and its machine that checks look at, gathered once for all of them."""

import os
import pwd
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

import structlog

from gateway.clock import now_ms
from gateway.errors import GatewayError
from gateway.lock import read_state
from gateway.store.db.backup import backups
from gateway.store.inspect import StoreSummary, inspect_store
from gateway.store.pairing import Overview, PairingLimits
from gateway.wiring.policies import build_pairing_limits
from hermes_config import environment
from hermes_config.accounts import account_tokens
from hermes_config.errors import ConfigError
from hermes_config.load import Loaded, load
from hermes_config.places import Home
from hermes_config.secrets import SECRETS
from hermes_config.settings import Settings
from tools.workplaces import sandbox_problem

Level = Literal["ok", "warn", "bad"]
LEVELS: tuple[Level, ...] = ("ok", "warn", "bad")

UNIT = "hermes-gateway.service"
SYSTEM_UNITS = Path("/etc/systemd/system")

T = TypeVar("T")
log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One result of a check. It never contains a secret or a part of one once `checks.run` returned it."""

    level: Level
    part: str = ""  # the heading it is shown under; set by `checks.run`
    text: str
    fix: str = ""  # a command to copy where there is one


def ok(text: str) -> Finding:
    return Finding(level="ok", text=text)


def warn(text: str, fix: str = "") -> Finding:
    return Finding(level="warn", text=text, fix=fix)


def bad(text: str, fix: str = "") -> Finding:
    return Finding(level="bad", text=text, fix=fix)


def worst(findings: Iterable[Finding]) -> Level:
    return max((finding.level for finding in findings), key=LEVELS.index, default="ok")


def describe_error(error: Exception) -> str:
    """Return the operating system's words, or only the type: other messages could quote a secret."""
    return error.strerror.lower() if isinstance(error, OSError) and error.strerror else type(error).__name__


class Unknown(Exception):
    """Raised by a check that needs a fact which could not be gathered. Another finding explains why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    home: Home
    now_ms: int
    user_id: int = 1000  # of this process
    home_problem: str = ""
    config_problem: str = ""  # one problem per line
    loaded: Loaded | None = None
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)  # those that are set, by variable
    variables: frozenset[str] = frozenset()  # names set in the environment
    gateway: Mapping[str, Any] | None = None  # the state of the running gateway; None when none runs
    store_problem: str = ""
    store: StoreSummary | None = None
    backup_ms: tuple[int, ...] = ()  # when each was taken, the newest first
    units: tuple[Path, ...] = ()  # systemd unit files of the gateway
    lingers: bool = False  # services of this user keep running after logout
    sandbox_problem: str = ""
    has_ripgrep: bool = True
    free_bytes: int | None = None  # on the disk of the home
    failures: tuple[Finding, ...] = ()  # facts that could not be gathered

    @property
    def settings(self) -> Settings:
        if self.loaded is None:
            raise Unknown("settings")
        return self.loaded.settings

    @property
    def access(self) -> Overview:
        if self.store is None or self.store.access is None:
            raise Unknown("people")
        return self.store.access

    @property
    def has_home(self) -> bool:
        return not self.home_problem and self.home.root.exists()


def gather(home: Home) -> Facts:
    """Gather the facts. Never raises and changes nothing; a fact that cannot be read becomes a finding."""
    failures: list[Finding] = []

    def attempt(part: str, name: str, read: Callable[[], T], otherwise: T) -> T:
        try:
            return read()
        except Exception as error:  # contained: the doctor must work on a broken home
            log.exception("fact not gathered", fact=name)
            text = f"Cannot read {name}: {describe_error(error)}"
            failures.append(Finding(level="bad", part=part, text=text))
            return otherwise

    no_settings: tuple[Loaded | None, str] = (None, "")
    no_store: tuple[StoreSummary | None, str] = (None, "")
    home_problem = _find_home_problem(home)
    loaded, config_problem = no_settings
    store, store_problem = no_store
    gateway: dict[str, Any] | None = None
    if not home_problem:  # files of another program are not opened, and its lock is not taken to read it
        loaded, config_problem = attempt("settings", "the settings", lambda: _load(home), no_settings)
        limits = build_pairing_limits(loaded.settings) if loaded else PairingLimits()
        store, store_problem = attempt("store", "state.db", lambda: _inspect(home, limits), no_store)
        gateway = attempt("gateway", "the lock file of the home", lambda: read_state(home.lock_file), None)
    return Facts(
        home=home,
        now_ms=now_ms(),
        user_id=os.geteuid(),
        home_problem=home_problem,
        config_problem=config_problem,
        loaded=loaded,
        secrets=read_secrets(loaded),
        variables=frozenset(environment.everything()),
        gateway=gateway,
        store_problem=store_problem,
        store=store,
        backup_ms=attempt("store", "the backup folder", lambda: _read_backup_times(home), ()),
        units=attempt("service", "the systemd units", _find_units, ()),
        lingers=attempt("service", "whether services keep running after logout", _lingers, False),
        sandbox_problem=attempt("machine", "the state of the sandbox", sandbox_problem, "It could not be tested."),
        has_ripgrep=shutil.which("rg") is not None,
        free_bytes=attempt("machine", "the free disk space", lambda: _measure_free_bytes(home.root), None),
        failures=tuple(failures),
    )


def read_secrets(loaded: Loaded | None = None) -> dict[str, str]:
    """Return the secrets that are set, by variable; also while the settings cannot be read."""
    named = {secret.env: environment.lookup(secret.env) for secret in SECRETS if secret.masked}
    tokens = account_tokens(loaded.settings) if loaded else {}
    return {name: value.strip() for name, value in (named | tokens).items() if value.strip()}


def _find_home_problem(home: Home) -> str:
    try:
        home.check_ours()
    except ConfigError as error:
        return str(error)
    return ""


def _load(home: Home) -> tuple[Loaded | None, str]:
    try:
        return load(home), ""
    except ConfigError as error:
        return None, str(error)


def _inspect(home: Home, limits: PairingLimits) -> tuple[StoreSummary | None, str]:
    try:
        return inspect_store(home.database, limits), ""
    except GatewayError as error:
        return None, str(error)


def _read_backup_times(home: Home) -> tuple[int, ...]:
    return tuple(int(copy.stat().st_mtime * 1000) for copy in backups(home.backups))


def _find_units() -> tuple[Path, ...]:
    config = Path(environment.get("XDG_CONFIG_HOME") or "~/.config").expanduser()
    places = (config / "systemd" / "user" / UNIT, SYSTEM_UNITS / UNIT)
    return tuple(place for place in places if place.exists())


def _lingers() -> bool:
    return Path("/var/lib/systemd/linger", pwd.getpwuid(os.geteuid()).pw_name).exists()


def _measure_free_bytes(root: Path) -> int:
    existing = next(place for place in (root, *root.parents) if place.exists())
    return shutil.disk_usage(existing).free
