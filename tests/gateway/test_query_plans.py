"""No statement that a message needs reads the past: neither a whole table, nor all that an account or a chat ever had.

Each statement of a running gateway is explained when it is executed, so that a new statement is checked too.
"""

import asyncio
import os
import re
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from gateway.daemon import run_gateway
from gateway.store.db.connection import Transaction, Value
from gateway.wiring.app import Gateway
from hermes_config.places import Home
from hermes_config.platforms import PlatformsSettings
from hermes_config.settings import BudgetsSettings, Settings
from tests.bench.filled_store import make_filled_store
from tests.gateway.platforms.client import connect
from tests.gateway.scene import soon

MESSAGES, SESSIONS = 4_000, 20
SETTINGS = Settings(
    platforms=PlatformsSettings.model_validate({"socket": {"enabled": True}, "web": {"enabled": False}}),
    budgets=BudgetsSettings(user_tokens=1_000_000, chat_tokens=1_000_000, day_tokens=1_000_000),
)
Plans = dict[str, set[str]]

# They hold only what is not finished: few rows, however many messages were answered before.
INDEXES_OF_OPEN_ROWS = {
    "approvals_waiting",
    "cron_jobs_due",
    "cron_runs_open",
    "delegations_open",
    "inbox_open",
    "memories_files",
    "outbox_open",
    "processes_open",
    "processes_task",
    "spending_reserved",
    "turns_one_per_session",
}
# Each finds one row, those of one turn, or as many as its query limits it to.
SMALL_LOOKUPS = {
    "approvals_call (turn_id=?)",
    "compactions_session (session_id=?)",
    "inbox_turn (turn_id=?)",
    "memories_scope (scope=? AND person_id=?)",  # at the beginning of a conversation
    "memories_scope (scope=?)",
    "messages_session (session_id=? AND id<?)",
    "messages_session (session_id=? AND id>?)",
    "messages_session (session_id=?)",
    "messages_turn (turn_id=?)",
    "sessions_current (key=?)",
    "sessions_key (key=?)",
    "spending_chat (chat=? AND day>?)",
    "spending_day (day>?)",
    "spending_person (person_id=? AND day>?)",
    "sqlite_autoindex_context_counts_1 (session_id=?)",
    "sqlite_autoindex_delegations_1 (turn_id=?)",
    "sqlite_autoindex_drafts_1 (turn_id=?)",
    "sqlite_autoindex_identities_1 (account=? AND user_id=?)",
    "sqlite_autoindex_messages_1 (inbox_id=?)",
    "sqlite_autoindex_overheard_1 (session_key=?)",
    "sqlite_autoindex_meta_1 (name=?)",
    "sqlite_autoindex_sessions_1 (id=?)",
    "sqlite_autoindex_tool_starts_1 (turn_id=?)",
    "sqlite_autoindex_turns_1 (id=?)",
    "turns_session (session_id=?)",
}
# No table with a past: drafts end with their turns, ended processes are deleted, the others exist in the query alone.
SMALL_SCANS = re.compile(
    r"SCAN (\(|json_each |lane$|line$|d$|drafts$|processes USING INDEX processes_holder$|"
    r"approval_rules$|cron_jobs$|approvals USING INDEX approvals_approved$)"
)
STEP = re.compile(r"(SCAN|SEARCH) \w+ USING (COVERING )?INDEX (?P<index>\w+)(?P<columns> \(.*\))?")
BY_ID = re.compile(
    r"SEARCH \w+( USING (INTEGER PRIMARY KEY \(rowid=\?\)|AUTOMATIC .*))?( LEFT-JOIN)?$"
)  # without USING: MAX(id)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    place = Home(tmp_path / "home")
    place.prepare()
    return place


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> Plans:
    """The steps of each statement's plan, as SQLite chose them when the statement was executed."""
    found: Plans = {}

    def explaining(method: Callable[..., object]) -> Callable[..., object]:
        def explain(self: Transaction, sql: str, *values: Value) -> object:
            steps = self._connection.execute(f"EXPLAIN QUERY PLAN {sql}", values).fetchall()
            found.setdefault(" ".join(sql.split()), set()).update(step["detail"] for step in steps)
            return method(self, sql, *values)

        return explain

    for name in ("execute", "all", "exists"):
        monkeypatch.setattr(Transaction, name, explaining(getattr(Transaction, name)))
    return found


async def converse(home: Home) -> None:
    """Run a gateway that answers plain questions, one with a tool, and commands, and then stops."""
    ready = asyncio.Event()

    async def on_ready(gateway: Gateway) -> None:
        ready.set()

    life = asyncio.create_task(run_gateway(SETTINGS, home, on_ready=on_ready))
    await soon(ready.wait())
    async with connect(home.socket) as client:
        for number, text in enumerate(("what is 17 * 23?", "what time is it?", "/status", "/new", "hello")):
            await client.say(text, message_id=str(number), chat="1")
            await client.hear()
    os.kill(os.getpid(), signal.SIGTERM)
    await soon(life)


def reads_the_past(step: str) -> bool:
    if not step.startswith(("SCAN", "SEARCH")) or SMALL_SCANS.match(step) or BY_ID.match(step):
        return False
    found = STEP.fullmatch(step)
    if found is None:
        return True
    return found["index"] not in INDEXES_OF_OPEN_ROWS and f"{found['index']}{found['columns']}" not in SMALL_LOOKUPS


@pytest.mark.parametrize("store", ["new", "filled", "filled and analyzed"])
async def test_no_statement_that_a_message_needs_reads_the_past(store: str, home: Home, plans: Plans) -> None:
    """Statistics must not be needed for it, nor mislead SQLite once there are some."""
    if store != "new":
        make_filled_store(home.database, messages=MESSAGES, sessions=SESSIONS, account="socket")
    if store == "filled and analyzed":
        with closing(sqlite3.connect(home.database)) as connection:
            connection.execute("ANALYZE")
    await converse(home)
    assert len(plans) > 60
    wrong = {sql: step for sql, steps in plans.items() for step in steps if reads_the_past(step)}
    assert not wrong, "\n".join(f"{sql[:300]}\n    {step}" for sql, step in wrong.items())


def test_a_scan_an_index_of_everything_and_half_a_key_are_found() -> None:
    for step in (
        "SCAN outbox",
        "SCAN messages USING INDEX messages_session",
        "SEARCH outbox USING INDEX outbox_chat (account=?)",
        "SEARCH w USING INDEX inbox_session (session_key=?)",
        "SEARCH inbox USING INDEX sqlite_autoindex_inbox_1 (account=?)",
        "SEARCH inbox USING INTEGER PRIMARY KEY (rowid>?)",
    ):
        assert reads_the_past(step), step
