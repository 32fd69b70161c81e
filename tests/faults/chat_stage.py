"""A stage with a chat platform on it: a server that outlives the gateway, people in chats, a ledger of both ways.

What arrived is what the server took, told apart by its tag (`chat_inside`).
"""

import asyncio
import json
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from playground.server import PlatformServer
from playground.wire import Wire
from tests.faults import aftermath
from tests.faults.ledger import Arrival, Sent, Verdict
from tests.faults.stage import Stage

_LOOK_AGAIN_SECONDS = 0.03
_WORDS = re.compile(r'"words": (\d+)')


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a conversation is, by the ids that the platform and the database use."""

    chat: str
    people: tuple[str, ...]
    thread: str = ""
    is_private: bool = True

    @property
    def name(self) -> str:
        return place_name(self.chat, self.thread)


def place_name(chat: str, thread: str = "") -> str:
    return f"{chat}/{thread}" if thread else chat


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A message of ours that the server has taken."""

    key: str
    piece: int
    answers: tuple[str, ...]
    chat: str
    thread: str = ""
    message_id: str
    text: str
    is_whole: bool = False  # a file that holds what the pieces before it only began
    more_names: tuple[str, ...] = field(default=())  # what else a receipt may call it


def read_tag(tag: str) -> Wire:
    """Key, piece and answers, for `Taken`."""
    told: Wire = json.loads(tag)
    return {"key": told["key"], "piece": told["piece"], "answers": tuple(told["answers"])}


class ChatStage(Stage):
    """`dropped` counts second copies that the platform itself did not let through."""

    server: PlatformServer

    def __init__(self, folder: Path, platform: str, settings: Mapping[str, str], broken: str) -> None:
        self.notices: Counter[str] = Counter()  # how often each came
        self.dropped = 0
        self._ids: dict[tuple[str, str], str] = {}  # of what people said, by chat and message id
        self._arrivals: dict[str, Arrival] = {}  # by key
        self._pieces: Counter[tuple[str, int]] = Counter()
        self._keys: dict[tuple[str, str], str] = {}  # by chat and message id of what the bot said
        super().__init__(folder, settings, ("--chat", platform, *(("--broken", broken) if broken else ())))

    def heard(self, sent: Sent, chat: str, message_id: str) -> None:
        """The server knows what somebody has sent by these."""
        self._ids[chat, message_id] = sent.id

    def asked_again(self, key: str) -> int:
        """How often somebody has asked for it to be sent once more."""
        return 0

    # What the server sees.

    def taken(self, one: Taken) -> None:
        if (one.chat, one.message_id) in self._keys:
            self.dropped += 1
            return
        for name in (one.message_id, *one.more_names):
            self._keys[one.chat, name] = one.key
        copies = self._pieces[one.key, one.piece]
        self._pieces[one.key, one.piece] += 1
        if not one.answers:
            self.notices[one.key] += 1
        if copies and one.answers and copies <= self.asked_again(one.key):
            self.ledger.copies += 1
        elif one.piece and not copies:
            self._go_on(one)
        else:
            self._arrive(one, copies)

    def _arrive(self, one: Taken, copies: int) -> None:
        arrival = Arrival(
            key=f"{one.key}#{copies + 1}" if copies else one.key,
            chat=place_name(one.chat, one.thread),
            text=one.text,
            answers=tuple(self._ids.get((one.chat, id_), f"unknown {id_}") for id_ in one.answers),
            asked_for=self.asked_again(one.key) > 0,
        )
        self._arrivals.setdefault(one.key, arrival)
        self.ledger.arrived(arrival)

    def _go_on(self, one: Taken) -> None:
        if not self._pieces[one.key, one.piece - 1]:
            self.ledger.complained(f"piece {one.piece} of {one.key} came without the one before")
        elif (arrival := self._arrivals[one.key]) is not self.ledger.arrivals[-1]:
            later = [one for one in self.ledger.arrivals if one.chat == arrival.chat]
            if later[-1] is not arrival and not self.asked_again(one.key):
                self.ledger.complained(f"something else came between the pieces of {one.key}")
        begun = self._arrivals[one.key]
        begun.text = one.text if one.is_whole else f"{begun.text} {one.text}"  # the blank it was cut at is in neither

    # The end.

    def judge(self) -> Verdict:
        replies = aftermath.replies(self.database)
        outcomes = {self._ids.get(where, ""): outcome for where, outcome in aftermath.outcomes(self.database).items()}
        in_doubt = self._explained_by_doubt(replies)
        verdict = self.ledger.judge(effects=aftermath.effects(self.effects), outcomes=outcomes, in_doubt=in_doubt)
        for reply in replies:
            if reply.state in ("failed", "expired"):
                verdict.accuse("given up", f"{reply.key} in {reply.chat}: {reply.state}")
            if reply.state == "sent" and self._keys.get((reply.chat, reply.receipt)) != reply.key:
                verdict.accuse("receipt of something else", f"{reply.key} in {reply.chat}: {reply.receipt}")
        self._judge_wholeness(verdict, in_doubt)
        places = (self.home, self.process.log, self.effects)
        for secret in self.secrets:
            verdict.accuse("token leaked", *aftermath.leaks(secret, places, allowed=self.home / ".env"))
        return verdict

    def _judge_wholeness(self, verdict: Verdict, in_doubt: Collection[str]) -> None:
        """A long answer has all of its pieces, and each once."""
        for arrival in self.ledger.arrivals:
            asked = [self.ledger.messages[id_] for id_ in arrival.answers if id_ in self.ledger.messages]
            if any(one.id in in_doubt for one in asked):
                continue
            wanted = sum(words_in(one) for one in asked if f"did {one.id}." in arrival.text)
            if (found := arrival.text.split().count("word")) != wanted:
                verdict.accuse("mutilated", f"{arrival.key} in {arrival.chat}: {found} words instead of {wanted}")

    @property
    def secrets(self) -> Sequence[str]:
        """What must be found nowhere on the disk."""
        return ()

    def _explained_by_doubt(self, replies: Sequence[aftermath.Reply]) -> set[str]:
        """Whose chat was told that the answer may not have arrived."""
        return set()


class LookupStage(ChatStage):
    """One on which nothing comes twice, and where what is said while the gateway is down is read afterwards.

    So every message counts as accepted at once, where the gateway has a cursor for the channel.
    """

    account: str

    def __init__(self, folder: Path, platform: str, settings: Mapping[str, str], broken: str) -> None:
        self._known: set[str] = set()
        super().__init__(folder, platform, settings, broken)

    def heard(self, sent: Sent, chat: str, message_id: str) -> None:
        super().heard(sent, chat, message_id)
        if chat in self._known and not sent.may_fail:
            self.ledger.acked(sent.id)

    async def become_known(self, chats: Collection[str], *, seconds: float = 30.0) -> None:
        """Waits until the gateway that runs has a cursor for each of them."""
        async with asyncio.timeout(seconds):
            while not set(chats) <= self._known:
                if self.database.exists():
                    self._known |= aftermath.seen_channels(self.database, self.account)
                await asyncio.sleep(_LOOK_AGAIN_SECONDS)

    async def taken_in(self, *, seconds: float = 40.0) -> None:
        """Waits until the gateway has written down all that was said so far."""
        async with asyncio.timeout(seconds):
            while not self._all_accepted():
                await asyncio.sleep(_LOOK_AGAIN_SECONDS)

    def judge(self) -> Verdict:
        for id_ in self._taken():  # whether or not the platform was told so in time
            self.ledger.acked(id_)
        return super().judge()

    def _all_accepted(self) -> bool:
        """What counts as accepted may not have been read yet."""
        taken = self._taken()
        return all(one.id in taken for one in self.ledger.messages.values() if not one.may_fail)

    def _taken(self) -> set[str]:
        outcomes = aftermath.outcomes(self.database) if self.database.exists() else {}
        return {self._ids[where] for where in outcomes if where in self._ids}


def words_in(message: Sent) -> int:
    """How many words a message asks for."""
    found = _WORDS.search(message.text)
    return int(found[1]) if found else 0
