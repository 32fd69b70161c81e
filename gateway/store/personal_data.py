"""Find all rows of a person, or of a chat that is theirs alone, as one snapshot shows them. Reads only."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from gateway.store.db.connection import Row, Transaction
from gateway.store.people import OWNER
from gateway.store.retention import hashes_in

_ALONE = ("dm", "")  # kinds of chat in which nobody else speaks

# Lists are handed over as JSON: there may be more in them than a statement may have parameters.
_LISTED = "IN (SELECT value FROM json_each(?))"
_PAIRS = "IN (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(?))"
SENT_BY_THEM = f"(person_id {_LISTED} OR (account, sender_id) {_PAIRS})"
_ACCOUNT = "CASE s.account WHEN '' THEN s.platform ELSE s.platform || '@' || s.account END"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPerson:
    """Somebody under all the names they have here."""

    ids: frozenset[str]  # in `people`; none when they were never let in
    identities: frozenset[tuple[str, str]]  # account, user id
    names: frozenset[str] = frozenset()
    has_owners_role: bool = False  # the one who runs this machine, or somebody paired as an owner
    was_revoked: bool = False

    @property
    def is_owner(self) -> bool:
        """The one who runs this machine: the terminal and the page are theirs."""
        return OWNER in self.ids

    @property
    def handles(self) -> frozenset[str]:
        """How settings and other rows may write them: `123`, `telegram:123`, `telegram@work:123`."""
        spelled = {f"{account}:{user}" for account, user in self.identities}
        by_platform = {f"{account.partition('@')[0]}:{user}" for account, user in self.identities}
        return frozenset(spelled | by_platform | {user for _, user in self.identities})

    @property
    def keys(self) -> tuple[str, str]:
        """The values of `SENT_BY_THEM`."""
        return _json(self.ids), _json(self.identities)


NOBODY = KnownPerson(ids=frozenset(), identities=frozenset())


@dataclass(slots=True, kw_only=True)
class Belongings:
    sessions: list[str] = field(default_factory=list)  # theirs alone
    session_keys: set[str] = field(default_factory=set)
    chats: set[tuple[str, str]] = field(default_factory=set)  # account and chat; theirs alone
    turns: list[str] = field(default_factory=list)
    messages: list[int] = field(default_factory=list)  # in sessions of theirs alone
    said: list[int] = field(default_factory=list)  # their own words in shared sessions
    shared: list[str] = field(default_factory=list)  # the sessions these are in
    inbox: list[int] = field(default_factory=list)
    outbox: list[int] = field(default_factory=list)
    overheard: list[int] = field(default_factory=list)
    pairing: list[int] = field(default_factory=list)
    processes: list[str] = field(default_factory=list)
    files: set[str] = field(default_factory=set)

    @property
    def is_empty(self) -> bool:
        said = (self.sessions, self.messages, self.said, self.inbox, self.outbox, self.overheard)
        return not any((*said, self.pairing, self.processes))


def find_person(tx: Transaction, account: str, user_id: str) -> KnownPerson:
    """`telegram` means all bots on it, `telegram@work` just that one."""
    accounts = {account} | {name for name in accounts_met(tx) if name.startswith(f"{account}@")}
    named = {(one, user_id) for one in accounts}
    known = tx.all(f"SELECT person_id FROM identities WHERE (account, user_id) {_PAIRS}", _json(named))  # noqa: S608
    ids = frozenset(row["person_id"] for row in known)
    linked = tx.all(f"SELECT * FROM identities WHERE person_id {_LISTED}", _json(ids))  # noqa: S608
    people = tx.all(f"SELECT name, role FROM people WHERE id {_LISTED}", _json(ids))  # noqa: S608
    identities = frozenset(named | {(row["account"], row["user_id"]) for row in linked})
    person = KnownPerson(ids=ids, identities=identities)
    names = [
        *linked,
        *people,
        *tx.all(f"SELECT DISTINCT sender_name AS name FROM inbox WHERE {SENT_BY_THEM}", *person.keys),  # noqa: S608
        *tx.all(
            f"SELECT DISTINCT sender_name AS name FROM overheard WHERE (account, sender_id) {_PAIRS}",  # noqa: S608
            _json(identities),
        ),
    ]
    return replace(
        person,
        names=frozenset(row["name"] for row in names if row["name"]),
        has_owners_role=OWNER in ids or any(row["role"] == "owner" for row in people),
        was_revoked=any(row["revoked_ms"] is not None for row in linked),
    )


def belongings(tx: Transaction, person: KnownPerson) -> Belongings:
    found = Belongings()
    _find_own_chats(tx, person, found)
    _find_own_rows(tx, person, found)
    _find_shared_rows(tx, person, found)
    return found


def belongings_of_chat(tx: Transaction, account: str, chat: str, session_key: str) -> Belongings:
    """Return all rows of a chat that is one person's alone."""
    found = Belongings(session_keys={session_key}, chats={(account, chat)})
    found.sessions = [row["id"] for row in tx.all("SELECT id FROM sessions WHERE key = ?", session_key)]
    _find_own_rows(tx, NOBODY, found)
    return found


def others_words(tx: Transaction, person: KnownPerson, table: str, own_sessions: Iterable[str]) -> list[Row]:
    """Rows of others that name the person, and so may repeat their words."""
    named = " OR ".join("instr(parts, ?)" for _ in person.names)
    if not named:
        return []
    narrowed = {
        "messages": f"AND role = 'user' AND session_id NOT {_LISTED}",
        "outbox": "AND (kind = 'notice' OR turn_id IS NULL)",  # not what the agent said
        "inbox": "",
    }[table]
    return tx.all(
        f"SELECT id, parts FROM {table} WHERE ({named}) {narrowed} ORDER BY id",  # noqa: S608
        *(json.dumps(name, ensure_ascii=False)[1:-1] for name in sorted(person.names)),
        *([_json(own_sessions)] if table == "messages" else []),
    )


def accounts_met(tx: Transaction) -> set[str]:
    """Every account on which anything was heard or anybody is known."""
    rows = tx.all(
        """SELECT account FROM identities UNION SELECT account FROM inbox UNION SELECT account FROM overheard
            UNION SELECT account FROM pairing_requests UNION SELECT account FROM cursors"""
    )
    return {row["account"] for row in rows}


def _find_own_chats(tx: Transaction, person: KnownPerson, found: Belongings) -> None:
    identities = _json(person.identities)
    spoke_in = tx.all(
        f"SELECT DISTINCT session_key, account, chat, chat_kind, user_id FROM inbox WHERE {SENT_BY_THEM}",  # noqa: S608
        *person.keys,
    )
    alone = {row["session_key"] for row in spoke_in if row["chat_kind"] in _ALONE or row["user_id"]}
    sessions = tx.all(
        f"""SELECT s.id, s.key, s.kind, s.chat, {_ACCOUNT} AS account FROM sessions s
             WHERE s.key {_LISTED} OR ({_ACCOUNT}, s.user_id) {_PAIRS}
                OR (s.kind = 'dm' AND ({_ACCOUNT}, s.chat) {_PAIRS}) OR (s.platform = 'cli' AND ?)
                OR (s.kind IN (?, ?) AND EXISTS (
                    SELECT 1 FROM messages m WHERE m.session_id = s.id AND m.person_id {_LISTED}))""",  # noqa: S608
        _json(alone),
        identities,
        identities,
        person.is_owner,
        *_ALONE,
        _json(person.ids),
    )
    asked = tx.all(f"SELECT id, account, chat FROM pairing_requests WHERE (account, user_id) {_PAIRS}", identities)  # noqa: S608
    found.sessions = [row["id"] for row in sessions]
    found.session_keys = alone | {row["key"] for row in sessions}
    found.pairing = [row["id"] for row in asked]
    private = [row for row in spoke_in if row["chat_kind"] in _ALONE]
    private += [row for row in sessions if row["kind"] in _ALONE and row["account"] != "cli"]
    found.chats = {(row["account"], row["chat"]) for row in (*private, *asked)}


def _find_own_rows(tx: Transaction, person: KnownPerson, found: Belongings) -> None:
    accepted = tx.all(
        f"""SELECT id, account, message_id, parts FROM inbox
             WHERE {SENT_BY_THEM} OR session_key {_LISTED}""",  # noqa: S608
        *person.keys,
        _json(found.session_keys),
    )
    messages = tx.all(f"SELECT id, parts FROM messages WHERE session_id {_LISTED}", _json(found.sessions))  # noqa: S608
    ended = tx.all(f"SELECT id FROM turns WHERE session_id {_LISTED}", _json(found.sessions))  # noqa: S608
    replies = tx.all(
        f"SELECT id, parts FROM outbox WHERE (account, chat) {_PAIRS} OR turn_id {_LISTED}",  # noqa: S608
        _json(found.chats),
        _json(row["id"] for row in ended),
    )
    overheard = tx.all(
        f"SELECT id FROM overheard WHERE (account, sender_id) {_PAIRS}",  # noqa: S608
        _json(person.identities),
    )
    started = tx.all(
        f"SELECT id FROM processes WHERE {SENT_BY_THEM} OR session_key {_LISTED} OR task_id {_LISTED}",  # noqa: S608
        *person.keys,
        _json(found.session_keys),
        _json(found.sessions),
    )
    found.processes = [row["id"] for row in started]
    found.inbox = [row["id"] for row in accepted]
    found.messages = [row["id"] for row in messages]
    found.turns = [row["id"] for row in ended]
    found.outbox = [row["id"] for row in replies]
    found.overheard = [row["id"] for row in overheard]
    for row in (*accepted, *messages, *replies):
        found.files |= hashes_in(row["parts"])


def _find_shared_rows(tx: Transaction, person: KnownPerson, found: Belongings) -> None:
    said = tx.all(
        f"""SELECT id, session_id, parts FROM messages
             WHERE (inbox_id {_LISTED} OR person_id {_LISTED}) AND session_id NOT {_LISTED}""",  # noqa: S608
        _json(found.inbox),
        _json(person.ids),
        _json(found.sessions),
    )
    found.said = [row["id"] for row in said]
    found.shared = sorted({row["session_id"] for row in said})
    for row in said:
        found.files |= hashes_in(row["parts"])


def _json(values: Iterable[object]) -> str:
    return json.dumps(list(values))
