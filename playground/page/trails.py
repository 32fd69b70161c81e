"""The trail of each message, put together from all rows that tell of it, up to the platform's receipt."""

import json
import sqlite3
from collections import defaultdict
from dataclasses import asdict, dataclass, field
from typing import Any

from playground.wire import Wire

_STEPS_READ = 600
_TRAILS_SHOWN = 14
_MAX_EXCERPT_CHARS = 60


@dataclass(slots=True, kw_only=True)
class TrailStep:
    event: str
    at_ms: int
    detail: Wire


@dataclass(slots=True, kw_only=True)
class Trail:
    """The steps of one message, or of a request to be let in."""

    key: str
    account: str
    who: str = ""
    text: str = ""
    steps: list[TrailStep] = field(default_factory=list)


def read(db: sqlite3.Connection) -> list[Wire]:
    """The newest first."""
    steps = db.execute(
        f"SELECT * FROM (SELECT * FROM trail ORDER BY id DESC LIMIT {_STEPS_READ}) ORDER BY id"  # noqa: S608
    ).fetchall()
    weaver = _Weaver(db)
    for row in steps:
        weaver.add(row)
    newest = sorted(weaver.trails.values(), key=lambda trail: trail.steps[-1].at_ms, reverse=True)
    return [asdict(trail) for trail in newest[:_TRAILS_SHOWN]]


class _Weaver:
    """Finds for each step the message it belongs to: by itself, by its turn, or by what was sent because of it."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self.trails: dict[str, Trail] = {}
        newest = "ORDER BY id DESC LIMIT 200"
        self._inbox = {row["id"]: row for row in db.execute(f"SELECT * FROM inbox {newest}")}  # noqa: S608
        self._outbox = {row["id"]: row for row in db.execute(f"SELECT * FROM outbox {newest}")}  # noqa: S608
        self._names = {(row["account"], row["user_id"]): row["user_name"] for row in _door(db)}
        self._by_turn: defaultdict[str, list[int]] = defaultdict(list)
        self._by_message: dict[tuple[str, str, str], int] = {}
        for number, row in sorted(self._inbox.items()):
            self._by_message[row["account"], row["chat"], row["message_id"]] = number
            if row["turn_id"]:
                self._by_turn[row["turn_id"]].append(number)
        self._by_reply: dict[int, int] = {}
        self._answered_turns = {row["turn_id"] for row in self._outbox.values()}
        self._doors: dict[tuple[str, str], Trail] = {}  # by chat

    def add(self, row: sqlite3.Row) -> None:
        step = TrailStep(event=row["event"], at_ms=row["at_ms"], detail=_loaded(row["detail"], {}))
        if notice := self._notice(row):
            step.detail = {**step.detail, "about": notice}
        if row["inbox_id"] is not None and row["outbox_id"] is not None:
            self._by_reply[row["outbox_id"]] = row["inbox_id"]
        elif step.event == "answered" and (row["turn_id"] is None or row["turn_id"] not in self._answered_turns):
            step.detail = {**step.detail, "is_last": True}  # nothing is sent: a decision, or a turn of the terminal
        for trail in self._find(row, step):
            trail.steps.append(step)

    def _notice(self, row: sqlite3.Row) -> str:
        """Return the topic of a message that is not the answer; a question to a human must not look like one."""
        said = self._outbox.get(row["outbox_id"])
        return str(said["topic"]) if said is not None and said["kind"] == "notice" else ""

    def _find(self, row: sqlite3.Row, step: TrailStep) -> list[Trail]:
        if row["inbox_id"] is not None:
            return self._of_messages([row["inbox_id"]])
        if row["turn_id"]:
            return self._of_messages(self._by_turn[row["turn_id"]])
        if row["outbox_id"] is not None:
            return self._of_reply(self._outbox.get(row["outbox_id"]))
        if "sender" in step.detail:
            return [self._at_the_door(step.detail)]
        return []

    def _of_messages(self, numbers: list[int]) -> list[Trail]:
        found = []
        for number in numbers:
            if (message := self._inbox.get(number)) is None:
                continue
            key = f"message {number}"
            if key not in self.trails:
                self.trails[key] = Trail(
                    key=key,
                    account=message["account"],
                    who=message["sender_name"],
                    text=_excerpt(message),
                )
            found.append(self.trails[key])
        return found

    def _of_reply(self, reply: sqlite3.Row | None) -> list[Trail]:
        """Find the trail of a reply without a turn: to a command, a button, or a stranger at the door."""
        if reply is None:
            return []
        if (pressed := self._by_reply.get(reply["id"])) is not None:
            return self._of_messages([pressed])
        answered = [(reply["account"], reply["chat"], one) for one in _loaded(reply["answers"], [])]
        if numbers := [self._by_message[one] for one in answered if one in self._by_message]:
            return self._of_messages(numbers)
        door = self._doors.get((reply["account"], reply["chat"]))
        return [door] if door else []

    def _at_the_door(self, about: Wire) -> Trail:
        account, sender = str(about.get("account") or about.get("platform", "")), str(about["sender"])
        key = f"door {account} {sender}"
        if key not in self.trails:
            who = self._names.get((account, sender), sender)
            self.trails[key] = Trail(key=key, account=account, who=who, text="at the door")
        if "chat" in about:
            self._doors[account, str(about["chat"])] = self.trails[key]
        return self.trails[key]


def _door(db: sqlite3.Connection) -> list[sqlite3.Row]:
    return db.execute("SELECT account, user_id, user_name FROM pairing_requests ORDER BY id").fetchall()


def _excerpt(message: sqlite3.Row) -> str:
    parts = _loaded(message["parts"], [])
    said = [part.get("text") or part.get("name") or part.get("kind") or "" for part in parts if isinstance(part, dict)]
    text = " ".join(" ".join(map(str, said)).split())
    if message["kind"] not in ("message", "command"):
        text = f"{message['kind']} {text}".strip()
    return text if len(text) <= _MAX_EXCERPT_CHARS else text[:_MAX_EXCERPT_CHARS] + "…"


def _loaded(stored: str, otherwise: Any) -> Any:
    try:
        return json.loads(stored)
    except ValueError:
        return otherwise
