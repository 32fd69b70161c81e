"""Usage of model calls, one row each: an estimate while a call runs, the provider's numbers afterwards."""

from dataclasses import dataclass, field
from typing import Literal

from agent_core.events import Usage
from gateway.clock import now_ms
from gateway.policies.budgets import Amount, Budgets, Pot
from gateway.store import sessions
from gateway.store.db.connection import Transaction, Value, build
from gateway.store.people import OWNER
from hermes_config.types import LOCAL_OWNER

By = Literal["day", "person", "chat", "model"]
JOBS = "cron:"
TERMINAL = "cli"

_LONGEST_CALL_MS = 24 * 3_600_000
_LOOKED_BACK_ROWS = 1_000
_NAMED = {
    "day": "s.day",
    "person": "CASE s.person_id WHEN '' THEN '(several, or forgotten)' ELSE COALESCE(p.name, s.person_id) END",
    "chat": "CASE s.chat WHEN '' THEN '(forgotten)' ELSE s.chat END",
    "model": "s.model",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Payer:
    """The chat and the people whose budgets a call counts against."""

    chat: str
    people: tuple[str, ...]
    session_id: str

    @property
    def person(self) -> str:
        """Return the person who pays; empty when several asked together and the chat pays."""
        return self.people[0] if len(self.people) == 1 else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    key: str
    at_ms: int
    day: str
    model: str
    usage: Usage = field(default_factory=Usage)
    priced: bool = True

    @property
    def amount(self) -> Amount:
        return Amount(tokens=self.usage.total_tokens, cost_micros=self.usage.cost_micros or 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    name: str
    calls: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    cost_micros: int
    unpriced_calls: int  # their cost is not in the sum

    @property
    def amount(self) -> Amount:
        return Amount(tokens=self.input_tokens + self.output_tokens, cost_micros=self.cost_micros)


def payer_of_turn(tx: Transaction, turn_id: str, session_id: str) -> Payer:
    """Return the payer from the stored rows: others may have joined, and a group may have a new id."""
    query = """SELECT account, chat, person_id FROM inbox WHERE turn_id = ? AND kind IN ('message', 'wake')
                GROUP BY account, chat, person_id ORDER BY MAX(id)"""
    asked = tx.all(query, turn_id)
    if asked and asked[-1]["account"] == TERMINAL:
        return Payer(chat=TERMINAL, people=(OWNER,), session_id=session_id)
    chat = f"{asked[-1]['account']}:{asked[-1]['chat']}" if asked else ""
    people = dict.fromkeys(row["person_id"] for row in asked if row["person_id"])
    return Payer(chat=chat, people=tuple(people), session_id=session_id)


def pots(tx: Transaction, budgets: Budgets, payer: Payer, day: str, *, reserved: bool = True) -> list[Pot]:
    """Return every budget that limits the payer, with or without reserved amounts."""
    found = [
        Pot(scope="user", limit=limit, used=used(tx, day, person_id=person, reserved=reserved))
        for person in payer.people
        if (limit := limit_of_person(tx, budgets, person))
    ]
    in_chat: Literal["job", "chat"] = "job" if payer.chat.startswith(JOBS) else "chat"
    if limit := budgets.limit(in_chat):
        found.append(Pot(scope=in_chat, limit=limit, used=used(tx, day, chat=payer.chat, reserved=reserved)))
    if limit := budgets.limit("day"):
        found.append(Pot(scope="day", limit=limit, used=used(tx, day, reserved=reserved)))
    return found


def limit_of_person(tx: Transaction, budgets: Budgets, person_id: str) -> Amount:
    if not budgets.own:
        return budgets.limit("user")
    rows = tx.all("SELECT account, user_id FROM identities WHERE person_id = ? ORDER BY account, user_id", person_id)
    identities = [LOCAL_OWNER] if person_id == OWNER else []
    for row in rows:
        platform = row["account"].partition("@")[0]
        identities += [f"{row['account']}:{row['user_id']}", f"{platform}:{row['user_id']}", row["user_id"]]
    return budgets.limit_of_person(identities)


def micros_per_token(tx: Transaction, model: str) -> float:
    """Return the recent price of a model whose price only its provider knows; 0 when unknown."""
    query = """SELECT cost_micros * 1.0 / (input_tokens + output_tokens) AS rate FROM spending
                WHERE model = ? AND priced AND settled AND input_tokens + output_tokens > 0
                  AND id > (SELECT MAX(id) FROM spending) - ? ORDER BY id DESC LIMIT 1"""
    return float(tx.value(query, model, _LOOKED_BACK_ROWS) or 0)


def reserve(tx: Transaction, call: Call, payer: Payer) -> None:
    _write(tx, call, payer, settled=False)


def settle(tx: Transaction, call: Call, payer: Payer) -> bool:
    """Store the usage of a call; return False when it was stored before, or is zero."""
    if not call.amount:
        tx.execute("DELETE FROM spending WHERE key = ? AND settled = 0", call.key)
        return False
    if not _write(tx, call, payer, settled=True):
        return False
    sessions.add_usage(tx, payer.session_id, call.usage)
    return True


def after_crash(tx: Transaction) -> None:
    """Settle the calls that were running when the last gateway died: presumably they have been paid for."""
    # Somebody may be waiting for an answer at the terminal right now: once settled at its estimate, that call could not
    # be corrected. Reservations count against budgets too, so one that was left there can wait.
    query = "SELECT * FROM spending WHERE settled = 0 AND (chat <> ? OR at_ms < ?)"
    for row in tx.all(query, TERMINAL, now_ms() - _LONGEST_CALL_MS):
        sessions.add_usage(tx, row["session_id"], build(Usage, row))
        tx.execute("UPDATE spending SET settled = 1 WHERE id = ?", row["id"])


def used(tx: Transaction, since_day: str, *, person_id: str = "", chat: str = "", reserved: bool = True) -> Amount:
    """Return the usage of a person, of a chat, or of all, with or without reserved amounts."""
    narrowed = {column: value for column, value in (("person_id", person_id), ("chat", chat)) if value}
    where = "".join(f" AND {column} = ?" for column in narrowed)
    query = f"""SELECT COALESCE(SUM(input_tokens + output_tokens), 0) AS tokens,
                       COALESCE(SUM(cost_micros), 0) AS cost_micros
                  FROM spending WHERE day >= ? AND settled >= ?{where}"""  # noqa: S608
    [row] = tx.all(query, since_day, not reserved, *narrowed.values())
    return build(Amount, row)


def totals(tx: Transaction, since_day: str, by: By) -> list[Total]:
    """Return totals, largest first; days in their order."""
    query = f"""SELECT {_NAMED[by]} AS name, COUNT(*) AS calls, SUM(s.input_tokens) AS input_tokens,
                       SUM(s.output_tokens) AS output_tokens, SUM(s.cached_tokens) AS cached_tokens,
                       SUM(s.cost_micros) AS cost_micros, SUM(1 - s.priced) AS unpriced_calls
                  FROM spending s LEFT JOIN people p ON p.id = s.person_id
                 WHERE s.day >= ? GROUP BY s.{"person_id" if by == "person" else by}
                 ORDER BY {"1" if by == "day" else "6 DESC, 3 DESC, 1"}"""  # noqa: S608
    return tx.read_all(Total, query, since_day)


def _write(tx: Transaction, call: Call, payer: Payer, *, settled: bool) -> bool:
    known: dict[str, Value] = {
        "model": call.model,
        "input_tokens": call.usage.input_tokens,
        "output_tokens": call.usage.output_tokens,
        "cached_tokens": call.usage.cached_tokens,
        "cost_micros": call.usage.cost_micros or 0,
        "priced": call.priced,
        "settled": settled,
    }
    changes = ", ".join(f"{name} = excluded.{name}" for name in known)
    update = f"(key) DO UPDATE SET {changes} WHERE spending.settled = 0"
    whose = {"person_id": payer.person, "chat": payer.chat, "session_id": payer.session_id}
    return tx.insert("spending", update, key=call.key, at_ms=call.at_ms, day=call.day, **whose, **known) is not None
