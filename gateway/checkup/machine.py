"""What Hermes stands on: interpreter, database library, disk, clock, programs."""

import platform
import sqlite3
from collections.abc import Iterator
from importlib.util import find_spec

from gateway.checkup.facts import Facts
from gateway.checkup.finding import Finding, bad, ok, warn
from gateway.clock import roughly
from hermes_config.accounts import bots
from tools.parts import in_bytes

PART = "machine"

_OLDEST_SQLITE = (3, 35, 0)  # the first with RETURNING
_LITTLE_BYTES, _TOO_LITTLE_BYTES = 1_000_000_000, 100_000_000
_BEFORE_HERMES_MS = 1_735_689_600_000  # 2025 began
_CLOCK_SLACK_MS = 300_000
_SDKS = {"telegram": "telegram", "discord": "discord", "slack": "slack_bolt"}


def versions(facts: Facts) -> Iterator[Finding]:
    found = f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}"
    if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
        needed = ".".join(map(str, _OLDEST_SQLITE))
        yield bad(PART, f"{found}: Hermes needs SQLite {needed} or newer", "use a Python with a newer SQLite")
    elif not _has_full_text_search():
        yield bad(PART, f"{found}: this SQLite was built without FTS5", "use a Python whose SQLite has FTS5")
    else:
        yield ok(PART, found)


def disk(facts: Facts) -> Iterator[Finding]:
    if facts.free_bytes is None:
        return
    database_bytes = facts.look.size_bytes if facts.look else 0
    text = f"{in_bytes(facts.free_bytes)} free on the disk of {facts.home.root}"
    if facts.free_bytes < _TOO_LITTLE_BYTES:
        yield bad(PART, f"{text}: messages are refused when it is full", f"make room on the disk of {facts.home.root}")
    elif facts.free_bytes < max(_LITTLE_BYTES, 2 * database_bytes):
        yield warn(PART, f"{text}: a backup may not fit", f"make room on the disk of {facts.home.root}")
    else:
        yield ok(PART, text)


def clock(facts: Facts) -> Iterator[Finding]:
    last_ms = max(facts.backup_ms, default=0)
    if facts.now_ms < _BEFORE_HERMES_MS:
        yield bad(PART, "The clock of this machine stands years in the past", "timedatectl set-ntp true")
    elif facts.now_ms < last_ms - _CLOCK_SLACK_MS:
        behind = roughly(last_ms - facts.now_ms)
        yield warn(PART, f"The newest backup is from the future, by {behind}: the clock jumped", "timedatectl status")
    else:
        yield ok(PART, "The clock is plausible")


def packages(facts: Facts) -> Iterator[Finding]:
    wanted = {module: name for name, module in _SDKS.items() if bots(facts.settings, name)}
    if facts.settings.platforms.web.enabled:
        wanted["aiohttp"] = "the web page"
    if facts.settings.model.name != "demo":
        wanted["openai"] = f"the model {facts.settings.model.name}"
    for module, what in wanted.items():
        if find_spec(module) is None:
            yield bad(PART, f"The Python package {module}, which {what} needs, is missing", "install Hermes again")


def sandbox(facts: Facts) -> Iterator[Finding]:
    if not facts.sandbox_problem:
        yield ok(PART, f"The sandbox works (bubblewrap){_limits(facts)}")
    elif facts.loaded and facts.settings.terminal.backend == "bubblewrap":
        yield bad(PART, f"terminal.backend is bubblewrap. {facts.sandbox_problem}", "apt install bubblewrap")
    else:
        text = f"Nobody but the owner can be given tools that need a sandbox. {facts.sandbox_problem}"
        yield warn(PART, text, "apt install bubblewrap")


def _limits(facts: Facts) -> str:
    """Only a running gateway knows: what it may do with control groups depends on how it was started."""
    told = facts.gateway.get("sandbox_limits") if facts.gateway else ""
    return f"; its commands are bounded {told}" if told else "; a running gateway tells what bounds its commands"


def search(facts: Facts) -> Iterator[Finding]:
    if facts.has_ripgrep:
        yield ok(PART, "ripgrep is there: searching files is quick")
    else:
        yield warn(PART, "ripgrep is not installed: searching files works, and takes longer", "apt install ripgrep")


def _has_full_text_search() -> bool:
    connection = sqlite3.connect(":memory:")
    try:
        return bool(connection.execute("SELECT sqlite_compileoption_used('ENABLE_FTS5')").fetchone()[0])
    finally:
        connection.close()
