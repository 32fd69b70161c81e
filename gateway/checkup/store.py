"""The database and its backups."""

from collections.abc import Iterator

from gateway.checkup.facts import Facts
from gateway.checkup.finding import Finding, bad, ok, warn
from gateway.checkup.words import counted
from gateway.clock import for_people, roughly
from tools.parts import in_bytes

PART = "store"

_GRACE_MS = 86_400_000  # backups are made while the gateway runs, and it need not always
_NEWS_MS = 7 * 86_400_000


def database(facts: Facts) -> Iterator[Finding]:
    if facts.store_problem:
        yield bad(PART, facts.store_problem)  # which says what to do
    elif facts.look is None:
        if not facts.home_problem:
            yield ok(PART, "There is no database yet; the first start makes it")
    elif facts.look.access is None:
        yield warn(PART, "state.db is of an older version; the next start makes a backup and updates it")
    else:
        yield ok(PART, f"state.db is sound ({in_bytes(facts.look.size_bytes)})")


def backups(facts: Facts) -> Iterator[Finding]:
    if facts.look is None:
        return
    if not facts.backup_ms:
        yield warn(PART, "There is no backup of state.db; a running gateway makes them", "hermes gateway run")
        return
    old_ms = facts.now_ms - facts.backup_ms[0]
    if old_ms > facts.settings.store.backup_every_hours * 3_600_000 + _GRACE_MS:
        text = f"The newest backup is {roughly(old_ms)} old; a running gateway makes them"
        yield warn(PART, text, "hermes gateway run")
    else:
        yield ok(PART, f"{counted(len(facts.backup_ms), 'backup', 'backups')}, the newest {roughly(old_ms)} old")


def notices(facts: Facts) -> Iterator[Finding]:
    """What the gateway wants its operator to know, as long as it is news."""
    for notice in facts.look.notices if facts.look else ():
        if facts.now_ms - notice.at_ms < _NEWS_MS:
            yield warn(PART, f"{for_people(notice.at_ms)}: {notice.text}")
