"""The machine, the database, the running gateway and its systemd unit."""

import os
import platform
import re
import sqlite3
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from gateway.clock import for_people, roughly
from gateway.doctor.facts import SYSTEM_UNITS, UNIT, Facts, Finding, bad, ok, warn
from gateway.platforms.all import PLATFORMS
from gateway.wording import count
from hermes_config.accounts import bots
from hermes_config.secrets import SECRETS
from tools.content import in_bytes

_OLDEST_SQLITE = (3, 35, 0)  # the first with RETURNING
_LITTLE_BYTES, _TOO_LITTLE_BYTES = 1_000_000_000, 100_000_000
_BEFORE_HERMES_MS = 1_735_689_600_000  # 2025 began
_CLOCK_SLACK_MS = 300_000
_SILENT_MS = 15_000  # the gateway writes its state every second
_BACKUP_GRACE_MS = 86_400_000  # only a running gateway makes backups, and it need not run all the time
_NOTICE_AGE_MS = 7 * 86_400_000


def check_versions(facts: Facts) -> Iterator[Finding]:
    found = f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}"
    if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
        needed = ".".join(map(str, _OLDEST_SQLITE))
        yield bad(f"{found}: Hermes needs SQLite {needed} or newer", "use a Python with a newer SQLite")
    elif not _has_full_text_search():
        yield bad(f"{found}: this SQLite was built without FTS5", "use a Python whose SQLite has FTS5")
    else:
        yield ok(found)


def check_disk(facts: Facts) -> Iterator[Finding]:
    if facts.free_bytes is None:
        return
    database_bytes = facts.store.size_bytes if facts.store else 0
    text = f"{in_bytes(facts.free_bytes)} free on the disk of {facts.home.root}"
    fix = "free some disk space"
    if facts.free_bytes < _TOO_LITTLE_BYTES:
        yield bad(f"{text}: when it is full, messages are refused", fix)
    elif facts.free_bytes < max(_LITTLE_BYTES, 2 * database_bytes):
        yield warn(f"{text}: a backup may not fit", fix)
    else:
        yield ok(text)


def check_clock(facts: Facts) -> Iterator[Finding]:
    ahead_ms = max(facts.backup_ms, default=0) - facts.now_ms
    if facts.now_ms < _BEFORE_HERMES_MS:
        yield bad("The clock of this machine is years behind", "timedatectl set-ntp true")
    elif ahead_ms > _CLOCK_SLACK_MS:
        text = f"The newest backup is dated {roughly(ahead_ms)} in the future: the clock was changed"
        yield warn(text, "timedatectl status")
    else:
        yield ok("The clock is plausible")


def check_packages(facts: Facts) -> Iterator[Finding]:
    needed = {spec.sdk: spec.name for spec in PLATFORMS if spec.sdk and bots(facts.settings, spec.name)}
    if facts.settings.platforms.web.enabled:
        needed["aiohttp"] = "the web page"
    if facts.settings.model.name != "demo":
        needed["openai"] = f"the model {facts.settings.model.name}"
    for module, user in needed.items():
        if find_spec(module) is None:
            yield bad(f"The Python package {module} is missing; {user} needs it", "install Hermes again")


def check_sandbox(facts: Facts) -> Iterator[Finding]:
    if not facts.sandbox_problem:
        # Only a running gateway knows: its use of control groups depends on how it was started.
        limits = facts.gateway.get("sandbox_limits") if facts.gateway else ""
        limited = f"commands are limited {limits}" if limits else "its limits are known while the gateway runs"
        yield ok(f"The sandbox works (bubblewrap); {limited}")
    elif facts.loaded and facts.settings.terminal.backend == "bubblewrap":
        yield bad(f"terminal.backend is bubblewrap. {facts.sandbox_problem}", "apt install bubblewrap")
    else:
        text = f"Only the owner gets tools that need a sandbox. {facts.sandbox_problem}"
        yield warn(text, "apt install bubblewrap")


def check_ripgrep(facts: Facts) -> Iterator[Finding]:
    if facts.has_ripgrep:
        yield ok("ripgrep is installed, so file searches are fast")
    else:
        yield warn("ripgrep is not installed, so file searches are slow", "apt install ripgrep")


def check_database(facts: Facts) -> Iterator[Finding]:
    if facts.store_problem:
        yield bad(facts.store_problem)  # which says what to do
    elif facts.store is None:
        if not facts.home_problem:
            yield ok("There is no database yet; the first start creates it")
    elif facts.store.access is None:
        yield warn("state.db was written by an older version; the next start backs it up and upgrades it")
    else:
        yield ok(f"state.db is intact ({in_bytes(facts.store.size_bytes)})")


def check_backups(facts: Facts) -> Iterator[Finding]:
    if facts.store is None:
        return
    fix = "hermes gateway run"
    if not facts.backup_ms:
        yield warn("There is no backup of state.db; only a running gateway makes backups", fix)
        return
    age_ms = facts.now_ms - facts.backup_ms[0]
    if age_ms > facts.settings.store.backup_every_hours * 3_600_000 + _BACKUP_GRACE_MS:
        yield warn(f"The newest backup is {roughly(age_ms)} old; only a running gateway makes backups", fix)
    else:
        yield ok(f"{count(len(facts.backup_ms), 'backup')}, the newest {roughly(age_ms)} old")


def list_notices(facts: Facts) -> Iterator[Finding]:
    for notice in facts.store.notices if facts.store else ():
        if facts.now_ms - notice.at_ms < _NOTICE_AGE_MS:
            yield warn(f"{for_people(notice.at_ms)}: {notice.text}")


def check_gateway(facts: Facts) -> Iterator[Finding]:
    state = facts.gateway
    if state is None:
        command = "hermes gateway run"
        if facts.units:
            command = f"systemctl {_user_flag(facts.units[0])}start {facts.units[0].stem}"
        yield warn("The gateway is not running", command)
        return
    silent_ms = facts.now_ms - int(state.get("told_ms", facts.now_ms))
    pid = state.get("pid", "unknown")
    if silent_ms > _SILENT_MS:
        text = f"The gateway (pid {pid}) has not reported for {roughly(silent_ms)}: it, or its disk, hangs"
        yield bad(text, "stop it, then start it again: hermes gateway run")
    elif problem := state.get("store"):
        yield bad(f"The gateway (pid {pid}) accepts no messages: {problem}", "hermes status")
    else:
        yield ok(f"The gateway is {state.get('state', 'running')}, pid {pid}")


def check_platforms(facts: Facts) -> Iterator[Finding]:
    if facts.gateway is None:
        return
    connections = dict(facts.gateway.get("platforms", {}))
    for account, connection in connections.items():
        yield _check_connection(facts, account, connection)
    names = (name for name, _ in facts.settings.platforms if any(name in one.enables for one in SECRETS))
    for account in (account for name in names for account in bots(facts.settings, name)):
        if account not in connections:
            yield warn(f"{account} was configured after the gateway started", "restart the gateway")


def check_model(facts: Facts) -> Iterator[Finding]:
    model = dict((facts.gateway or {}).get("model", {}))
    if problem := model.get("problem"):
        yield bad(f"The last call to the model {model.get('name', '')} failed: {problem}", "hermes config check")
    elif answered_ms := model.get("answered_ms"):
        yield ok(f"The model {model.get('name', '')} answered {roughly(facts.now_ms - answered_ms)} ago")


def check_units(facts: Facts) -> Iterator[Finding]:
    for unit in facts.units:
        program = _read_program(unit)
        if program and not os.access(program, os.X_OK):
            yield bad(f"{unit} starts {program}, which does not exist", f"correct ExecStart in {unit}")
        elif not any(unit.parent.glob(f"*.wants/{UNIT}")):
            yield warn(f"{unit} is not enabled", f"systemctl {_user_flag(unit)}enable --now {unit.stem}")
        else:
            yield ok(f"{unit} is enabled")
    if any(map(_user_flag, facts.units)) and not facts.lingers:
        yield warn("The service stops when you log out", "loginctl enable-linger")


def _check_connection(facts: Facts, account: str, connection: dict[str, object]) -> Finding:
    state, problem = connection.get("state"), connection.get("problem")
    last_ms = connection.get("last_heard_ms")
    seen = f", last contact {roughly(facts.now_ms - last_ms)} ago" if isinstance(last_ms, int) and last_ms else ""
    if state == "connected":
        return ok(f"{account} is connected{seen}")
    text = f"{account} is not connected{seen}: {problem or state}"
    if state != "needs operator":
        return warn(f"{text}; retrying", "hermes status")
    name, _, bot = account.partition("@")
    token = next((one for one in SECRETS if one.per_account and name in one.enables), None)
    env = token.env_of(bot) if token and bot else token.env if token else ""
    return bad(text, f"hermes config set {env}, then restart the gateway" if env else "hermes status")


def _has_full_text_search() -> bool:
    connection = sqlite3.connect(":memory:")
    try:
        return bool(connection.execute("SELECT sqlite_compileoption_used('ENABLE_FTS5')").fetchone()[0])
    finally:
        connection.close()


def _user_flag(unit: Path) -> str:
    return "" if unit.parent == SYSTEM_UNITS else "--user "


def _read_program(unit: Path) -> str:
    """Return the program that a unit starts; empty where the file alone does not tell."""
    found = re.search(r"^ExecStart=[-@:+!]*(\S+)", unit.read_text(errors="replace"), re.M)
    program = found[1].replace("%h", str(Path.home())) if found else ""
    return program if program.startswith("/") and "%" not in program else ""
