"""What Hermes stands on: interpreter, database library, disk, clock, programs."""

import os
import platform
import re
import sqlite3
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from gateway.clock import for_people, roughly
from gateway.doctor.facts import Facts, Finding, bad, counted, ok, warn
from gateway.doctor.gather import SYSTEM_UNITS, UNIT
from gateway.platforms.all import PLATFORMS
from hermes_config.accounts import bots
from hermes_config.secrets import SECRETS
from tools.content import in_bytes

MACHINE = "machine"

_OLDEST_SQLITE = (3, 35, 0)  # the first with RETURNING
_LITTLE_BYTES, _TOO_LITTLE_BYTES = 1_000_000_000, 100_000_000
_BEFORE_HERMES_MS = 1_735_689_600_000  # 2025 began
_CLOCK_SLACK_MS = 300_000


def versions(facts: Facts) -> Iterator[Finding]:
    found = f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}"
    if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
        needed = ".".join(map(str, _OLDEST_SQLITE))
        yield bad(MACHINE, f"{found}: Hermes needs SQLite {needed} or newer", "use a Python with a newer SQLite")
    elif not _has_full_text_search():
        yield bad(MACHINE, f"{found}: this SQLite was built without FTS5", "use a Python whose SQLite has FTS5")
    else:
        yield ok(MACHINE, found)


def disk(facts: Facts) -> Iterator[Finding]:
    if facts.free_bytes is None:
        return
    database_bytes = facts.look.size_bytes if facts.look else 0
    text = f"{in_bytes(facts.free_bytes)} free on the disk of {facts.home.root}"
    if facts.free_bytes < _TOO_LITTLE_BYTES:
        yield bad(
            MACHINE, f"{text}: messages are refused when it is full", f"make room on the disk of {facts.home.root}"
        )
    elif facts.free_bytes < max(_LITTLE_BYTES, 2 * database_bytes):
        yield warn(MACHINE, f"{text}: a backup may not fit", f"make room on the disk of {facts.home.root}")
    else:
        yield ok(MACHINE, text)


def clock(facts: Facts) -> Iterator[Finding]:
    last_ms = max(facts.backup_ms, default=0)
    if facts.now_ms < _BEFORE_HERMES_MS:
        yield bad(MACHINE, "The clock of this machine stands years in the past", "timedatectl set-ntp true")
    elif facts.now_ms < last_ms - _CLOCK_SLACK_MS:
        behind = roughly(last_ms - facts.now_ms)
        yield warn(
            MACHINE, f"The newest backup is from the future, by {behind}: the clock jumped", "timedatectl status"
        )
    else:
        yield ok(MACHINE, "The clock is plausible")


def packages(facts: Facts) -> Iterator[Finding]:
    wanted = {spec.sdk: spec.name for spec in PLATFORMS if spec.sdk and bots(facts.settings, spec.name)}
    if facts.settings.platforms.web.enabled:
        wanted["aiohttp"] = "the web page"
    if facts.settings.model.name != "demo":
        wanted["openai"] = f"the model {facts.settings.model.name}"
    for module, what in wanted.items():
        if find_spec(module) is None:
            yield bad(MACHINE, f"The Python package {module}, which {what} needs, is missing", "install Hermes again")


def sandbox(facts: Facts) -> Iterator[Finding]:
    if not facts.sandbox_problem:
        yield ok(MACHINE, f"The sandbox works (bubblewrap){_limits(facts)}")
    elif facts.loaded and facts.settings.terminal.backend == "bubblewrap":
        yield bad(MACHINE, f"terminal.backend is bubblewrap. {facts.sandbox_problem}", "apt install bubblewrap")
    else:
        text = f"Nobody but the owner can be given tools that need a sandbox. {facts.sandbox_problem}"
        yield warn(MACHINE, text, "apt install bubblewrap")


def _limits(facts: Facts) -> str:
    """Only a running gateway knows: what it may do with control groups depends on how it was started."""
    told = facts.gateway.get("sandbox_limits") if facts.gateway else ""
    return f"; its commands are bounded {told}" if told else "; a running gateway tells what bounds its commands"


def search(facts: Facts) -> Iterator[Finding]:
    if facts.has_ripgrep:
        yield ok(MACHINE, "ripgrep is there: searching files is quick")
    else:
        yield warn(MACHINE, "ripgrep is not installed: searching files works, and takes longer", "apt install ripgrep")


def _has_full_text_search() -> bool:
    connection = sqlite3.connect(":memory:")
    try:
        return bool(connection.execute("SELECT sqlite_compileoption_used('ENABLE_FTS5')").fetchone()[0])
    finally:
        connection.close()


SERVICE = "gateway"
SERVICE = "service"

_SILENT_MS = 15_000  # it tells its state every second


def gateway(facts: Facts) -> Iterator[Finding]:
    running = facts.gateway
    if running is None:
        yield warn(SERVICE, "No gateway is running", _start(facts))
        return
    silent_ms = facts.now_ms - int(running.get("told_ms", facts.now_ms))
    pid = running.get("pid", "unknown")
    if silent_ms > _SILENT_MS:
        text = f"The gateway (pid {pid}) has told nothing for {roughly(silent_ms)}: it hangs, or its disk does"
        yield bad(SERVICE, text, "stop it, and start it again: hermes gateway run")
    elif problem := running.get("store"):
        yield bad(SERVICE, f"The gateway (pid {pid}) takes no messages: {problem}", "hermes status")
    else:
        yield ok(SERVICE, f"The gateway is {running.get('state', 'there')}, pid {pid}")


def platforms(facts: Facts) -> Iterator[Finding]:
    if facts.gateway is None:
        return
    heard = dict(facts.gateway.get("platforms", {}))
    for account, connection in heard.items():
        yield _hearing(facts, account, connection)
    names = (name for name, _ in facts.settings.platforms if any(name in one.enables for one in SECRETS))
    for account in (account for name in names for account in bots(facts.settings, name)):
        if account not in heard:
            text = (
                f"{account} is set up, and the running gateway does not know it: it reads its settings when it starts"
            )
            yield warn(SERVICE, text, "restart the gateway")


def model(facts: Facts) -> Iterator[Finding]:
    told = dict((facts.gateway or {}).get("model", {}))
    if problem := told.get("problem"):
        yield bad(
            SERVICE, f"The model {told.get('name', '')} did not answer last time: {problem}", "hermes config check"
        )
    elif answered_ms := told.get("answered_ms"):
        yield ok(SERVICE, f"The model {told.get('name', '')} answered {roughly(facts.now_ms - answered_ms)} ago")


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
        return ok(SERVICE, f"{account} is connected{heard}")
    text = f"{account} is not connected{heard}: {problem or state}"
    if state != "needs operator":
        return warn(SERVICE, f"{text}; it is tried again by itself", "hermes status")
    name, _, bot = account.partition("@")
    token = next((one for one in SECRETS if one.per_account and name in one.enables), None)
    env = token.env_of(bot) if token and bot else token.env if token else ""
    return bad(SERVICE, text, f"hermes config set {env}, then restart the gateway" if env else "hermes status")


def _start(facts: Facts) -> str:
    return f"systemctl {_user(facts.units[0])}start {facts.units[0].stem}" if facts.units else "hermes gateway run"


def _user(unit: Path) -> str:
    return "" if unit.parent == SYSTEM_UNITS else "--user "


def _program(unit: Path) -> str:
    """What it starts; empty where that cannot be told from the file alone."""
    found = re.search(r"^ExecStart=[-@:+!]*(\S+)", unit.read_text(errors="replace"), re.M)
    program = found[1].replace("%h", str(Path.home())) if found else ""
    return program if program.startswith("/") and "%" not in program else ""


STORE = "store"

_GRACE_MS = 86_400_000  # backups are made while the gateway runs, and it need not always
_NEWS_MS = 7 * 86_400_000


def database(facts: Facts) -> Iterator[Finding]:
    if facts.store_problem:
        yield bad(STORE, facts.store_problem)  # which says what to do
    elif facts.look is None:
        if not facts.home_problem:
            yield ok(STORE, "There is no database yet; the first start makes it")
    elif facts.look.access is None:
        yield warn(STORE, "state.db is of an older version; the next start makes a backup and updates it")
    else:
        yield ok(STORE, f"state.db is sound ({in_bytes(facts.look.size_bytes)})")


def backups(facts: Facts) -> Iterator[Finding]:
    if facts.look is None:
        return
    if not facts.backup_ms:
        yield warn(STORE, "There is no backup of state.db; a running gateway makes them", "hermes gateway run")
        return
    old_ms = facts.now_ms - facts.backup_ms[0]
    if old_ms > facts.settings.store.backup_every_hours * 3_600_000 + _GRACE_MS:
        text = f"The newest backup is {roughly(old_ms)} old; a running gateway makes them"
        yield warn(STORE, text, "hermes gateway run")
    else:
        yield ok(STORE, f"{counted(len(facts.backup_ms), 'backup', 'backups')}, the newest {roughly(old_ms)} old")


def notices(facts: Facts) -> Iterator[Finding]:
    """What the gateway wants its operator to know, as long as it is news."""
    for notice in facts.look.notices if facts.look else ():
        if facts.now_ms - notice.at_ms < _NEWS_MS:
            yield warn(STORE, f"{for_people(notice.at_ms)}: {notice.text}")
