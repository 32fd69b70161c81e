"""Findings, and the facts about a home and its machine that checks look at, gathered once for all of them."""

import os
import pwd
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

import structlog

from gateway.clock import now_ms
from gateway.errors import GatewayError, StoreCorrupt
from gateway.lock import read_state
from gateway.policies.pairing import PairingLimits
from gateway.store import approvals, cron, outbox, pairing
from gateway.store.approvals import GrantedRule
from gateway.store.cron import Job
from gateway.store.db.backup import backups, find_damage
from gateway.store.db.connection import Transaction, translate_errors
from gateway.store.inspect import is_there, peek
from gateway.store.outbox import Notice
from gateway.store.pairing import Overview
from gateway.wiring.network_tools import build_browsers
from gateway.wiring.policies import build_pairing_limits
from hermes_config import environment
from hermes_config.accounts import account_tokens
from hermes_config.errors import ConfigError
from hermes_config.load import Loaded, load
from hermes_config.places import Home
from hermes_config.secrets import SECRETS
from hermes_config.settings import Settings
from tools.workplaces import sandbox_fix, sandbox_problem

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
class StoreSummary:
    size_bytes: int
    access: Overview | None  # None for an older schema, which the next start upgrades
    open_chats: tuple[str, ...] = ()  # opened by an owner, as `account:chat`
    notices: tuple[Notice, ...] = ()
    failing_jobs: tuple[Job, ...] = ()
    rules: tuple[GrantedRule, ...] = ()  # granted: calls they cover run without asking


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
    sandbox_fix: str = ""
    has_ripgrep: bool = True
    browser_problem: str = ""
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

    home_problem = _find_problem(home.check_ours, ConfigError)[1]
    loaded: Loaded | None = None
    store: StoreSummary | None = None
    gateway: dict[str, Any] | None = None
    config_problem = store_problem = ""
    nothing: tuple[Any, str] = (None, "")
    if not home_problem:  # files of another program are not opened, and its lock is not taken to read it
        read_settings = partial(_find_problem, lambda: load(home), ConfigError)
        loaded, config_problem = attempt("settings", "the settings", read_settings, nothing)
        limits = build_pairing_limits(loaded.settings) if loaded else PairingLimits()
        read_database = partial(_find_problem, lambda: inspect_store(home.database, limits), GatewayError)
        store, store_problem = attempt("store", "state.db", read_database, nothing)
        gateway = attempt("gateway", "the lock file of the home", lambda: read_state(home.lock_file), None)
    units = (find_user_units() / UNIT, SYSTEM_UNITS / UNIT)
    user_name = attempt("service", "your user name", lambda: pwd.getpwuid(os.geteuid()).pw_name, "")
    lingers = Path("/var/lib/systemd/linger", user_name)
    existing = next(place for place in (home.root, *home.root.parents) if place.exists())
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
        backup_ms=attempt("store", "the backup folder", lambda: _read_times(home.backups), ()),
        units=attempt("service", "the systemd units", lambda: tuple(one for one in units if one.exists()), ()),
        lingers=attempt("service", "whether services keep running after logout", lingers.exists, False),
        sandbox_problem=attempt("machine", "the state of the sandbox", sandbox_problem, "It could not be tested."),
        sandbox_fix=attempt("machine", "how to fix the sandbox", sandbox_fix, ""),
        browser_problem=build_browsers(loaded.settings).problem if loaded else "",
        has_ripgrep=shutil.which("rg") is not None,
        free_bytes=attempt("machine", "the free disk space", lambda: shutil.disk_usage(existing).free, None),
        failures=tuple(failures),
    )


def read_secrets(loaded: Loaded | None = None) -> dict[str, str]:
    """Return the secrets that are set, by variable; also while the settings cannot be read."""
    named = {secret.env: environment.lookup(secret.env) for secret in SECRETS if secret.masked}
    tokens = account_tokens(loaded.settings) if loaded else {}
    return {name: value.strip() for name, value in (named | tokens).items() if value.strip()}


def inspect_store(path: Path, limits: PairingLimits) -> StoreSummary | None:
    """Summarise a checked database, None if missing. Raises StoreCorrupt, StoreTooNew or StoreUnavailable. Blocks."""

    def summarise(tx: Transaction) -> StoreSummary:
        chats = tx.all("SELECT account, chat FROM chats WHERE allowed_ms IS NOT NULL ORDER BY account, chat")
        return StoreSummary(
            size_bytes=path.stat().st_size,
            access=pairing.overview(tx, limits),
            open_chats=tuple(f"{row['account']}:{row['chat']}" for row in chats),
            notices=tuple(outbox.recent(tx)),
            failing_jobs=tuple(cron.list_in_trouble(tx)),
            rules=tuple(approvals.rules(tx)),
        )

    if not is_there(path):
        return None
    with translate_errors(path):
        damage = find_damage(path)
    if damage:
        raise StoreCorrupt(f"{path.name} is damaged ({damage}). Restart the gateway: it restores the newest backup.")
    return peek(path, summarise, StoreSummary(size_bytes=path.stat().st_size, access=None))


def _find_problem(read: Callable[[], T], known: type[Exception]) -> tuple[T | None, str]:
    """Return what was read, or what the known error says."""
    try:
        return read(), ""
    except known as error:
        return None, str(error)


def _read_times(folder: Path) -> tuple[int, ...]:
    return tuple(int(file.stat().st_mtime * 1000) for file in backups(folder))


def find_user_units() -> Path:
    """Return the folder of this user's own systemd units."""
    return Path(environment.get("XDG_CONFIG_HOME") or "~/.config").expanduser() / "systemd" / "user"
