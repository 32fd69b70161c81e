"""Sends messages of the agent to other chats: checks who may send where, and adds the outbox row.

Owners may send to every chat we know; members to chats where they have access and have written; guests to none. For
all but owners, a chat they may not reach looks the same as one that does not exist.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from gateway.changes import Changes
from gateway.clock import new_id
from gateway.messages import SessionKey, Text
from gateway.policies.access import Role, Rules, lesser
from gateway.schedule.runs import RunStarter
from gateway.store import chats, cron, inbox, outbox, people, trail, turns
from gateway.store.chats import ChatPlace
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.store.inbox import Accepted
from gateway.store.trail import TrailEvent
from tools.base import ToolFailed
from tools.builtin.messaging import Target
from tools.content import one_line

TOPIC = "message"  # of rows for another chat than the one that asked
MAX_LISTED = 30
_IN_WORDS = {"dm": "a direct chat", "group": "a group", "channel": "a channel", "thread": "a thread"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """Implements `tools.builtin.messaging.Sends` over the store: the session says which turn runs, and so who asks."""

    db: Database
    rules: Rules
    accounts: Collection[str]  # accounts that are switched on
    local_accounts: Collection[str] = ()  # whoever can reach these is the owner
    age_limit_ms: int = outbox.DEFAULT_AGE_LIMIT_MS
    changes: Changes = field(default_factory=Changes)

    async def find(self, task_id: str, to: str) -> Target:
        return await self.db.read(lambda tx: self._look_up(tx, task_id, to)[1])

    async def send(self, task_id: str, target: Target, text: str) -> None:
        key = new_id()

        # Looked up again in the unit that writes: access may have been revoked while a human was asked.
        def unit(tx: Transaction) -> str:
            place, found, turn_id = self._look_up(tx, task_id, target.id)
            if turns.stop_requested(tx, turn_id):
                raise ToolFailed("Not sent: the user stopped this turn.")
            if found.is_here:
                raise ToolFailed("Not sent: the conversation has moved to that chat. Answer there directly.")
            queued = "SELECT 1 FROM trail WHERE turn_id = ? AND event = ? AND json_extract(detail, '$.key') = ?"
            if tx.one(queued, turn_id, TrailEvent.MESSAGE_QUEUED, key):
                return place.account  # a commit that was reported as failed may have been made
            # Without the turn: its readers must not learn what was asked elsewhere.
            row = outbox.add(tx, place.address, [Text(text=text)], topic=TOPIC, age_limit_ms=self.age_limit_ms)
            # Without the address: only the row has it, and is erased with its person.
            trail.record(tx, TrailEvent.MESSAGE_QUEUED, turn_id=turn_id, row=row, key=key)
            return place.account

        self.changes.notify("outbox", account=await self.db.write_when_possible(unit))

    def _look_up(self, tx: Transaction, task_id: str, to: str) -> tuple[ChatPlace, Target, str]:
        turn_id, asked = inbox.read_asking(tx, task_id)
        if not asked:
            raise ToolFailed("Not sent: the turn that asked for it is over.")
        here = asked[-1].address
        rights = _Rights(tx=tx, sending=self, asked=asked)
        place = rights.find_place(to)
        if place is None or not rights.reach(place):
            raise ToolFailed(rights.describe_places(to))
        is_here = (place.account, place.chat, place.thread) == (here.account, here.chat, here.thread)
        return place, Target(id=place.id, name=in_words(place), is_here=is_here), turn_id

    def role_now(self, tx: Transaction, key: SessionKey, sender_id: str) -> Role | None:
        """Implements `people.RoleOf`. A job has the role of whoever made it."""
        if key.platform == cron.PLATFORM:
            job = cron.get(tx, key.chat)
            return RunStarter(role_of=self.role_now, accounts=self.accounts).find_role(tx, job) if job else None
        return people.find_role(tx, key, sender_id, self.rules, local=key.account_name in self.local_accounts)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rights:
    """The rights that everybody who asks in a turn has."""

    tx: Transaction
    sending: Sending
    asked: Sequence[Accepted]

    @property
    def are_owners(self) -> bool:
        return all(self._role(message) == "owner" for message in self.asked)

    def find_place(self, to: str) -> ChatPlace | None:
        """Return the chat that is named; not necessarily one that they may reach."""
        accounts = self.sending.accounts
        name, _, rest = to.strip().partition(":")
        name = name.strip().lower()
        if not rest:
            return self._find_home(name)
        chat, _, thread = rest.partition(":")
        return chats.find(self.tx, name, chat.strip(), thread.strip()) if name in accounts and chat.strip() else None

    def _find_home(self, name: str) -> ChatPlace | None:
        """Return the home of the bot or platform that is named; else of the bot we talk through, or the only one."""
        found = [place for place in chats.list_homes(self.tx, self.sending.accounts) if self.reach(place)]
        if name == "home":
            found = [place for place in found if place.account == self.asked[-1].address.account] or found
        else:
            exact = [place for place in found if place.account == name]
            found = exact or [place for place in found if place.account.partition("@")[0] == name]
        return found[0] if len(found) == 1 else None

    def reach(self, place: ChatPlace) -> bool:
        return all(self._reaches(message, place) for message in self.asked)

    def describe_places(self, to: str) -> str:
        """Return an error with the places that can be used; the same text for forbidden and for unknown ones."""
        here = self.asked[-1].address
        listed = [place for place in self._listed() if place.address != replace(here, reply_to="")]
        known = [place for place in listed if self.reach(place)]
        shown = "; ".join(map(in_words, known[:MAX_LISTED]))
        more = f"; and {len(known) - MAX_LISTED} more" if len(known) > MAX_LISTED else ""
        there = f"Available: {shown}{more}." if known else "None is available yet."
        hint = (
            " An owner can make a chat the home of its platform by sending /sethome there." if self.are_owners else ""
        )
        return f"There is no place {one_line(to)!r} that this user may send to. {there}{hint}"

    def _listed(self) -> list[ChatPlace]:
        tx, accounts = self.tx, self.sending.accounts
        if not self.are_owners:
            own = {(one.key.account_name, one.key.chat) for message in self.asked for one in self._spoken(message)}
            found = [chats.find(tx, account, chat) for account, chat in sorted(own) if account in accounts]
            known = {place.id: place for place in found if place is not None}
        else:
            known = list_known(tx, accounts)
        # In a shared chat others would read about private ones.
        is_shared = any(not message.key.is_private for message in self.asked)
        return [place for place in known.values() if not is_shared or place.kind not in ("dm", "") or place.is_home]

    def _reaches(self, message: Accepted, place: ChatPlace) -> bool:
        match self._role(message):
            case "owner":
                return True
            case "member":
                return any(
                    (one.key.account_name, one.key.chat) == (place.account, place.chat)
                    and place.thread in ("", one.key.thread)
                    and self.sending.role_now(self.tx, one.key, one.sender_id) is not None
                    for one in self._spoken(message)
                )
            case _:
                return False

    def _spoken(self, message: Accepted) -> list[chats.Spoken]:
        return chats.list_spoken(self.tx, message.person_id) if message.person_id else []

    def _role(self, message: Accepted) -> Role | None:
        """Return the lesser of the role they had when they wrote and the one they have now."""
        now = self.sending.role_now(self.tx, message.key, message.sender_id)
        return lesser(now, cast(Role, message.role)) if now is not None else None


def list_known(tx: Transaction, accounts: Collection[str]) -> dict[str, ChatPlace]:
    """Return homes and the chats that were last used, by the ids that people write."""
    listed = (*chats.list_homes(tx, accounts), *chats.list_recent(tx, accounts, limit=4 * MAX_LISTED))
    return {place.id: place for place in listed}


def in_words(place: ChatPlace) -> str:
    what = _IN_WORDS.get(place.kind, "a chat")
    name = one_line(place.name)
    if name:
        what = f"{what} with {name}" if place.kind == "dm" else f"{what} named {name}"
    home = ", the home there" if place.is_home else ""
    return f"{what} on {place.account.partition('@')[0].capitalize()}{home} ({place.id})"
