"""What went in and what came out, seen from outside, and the verdict on it.

Every accepted message answered or explained, none twice, in order, no tool run twice. The ledger believes
the wire and the tool's own effects; the database is asked for three things alone that cannot be seen from
outside: which messages a stop has ended, which found the queue full, and what an answer in doubt would have
answered. Those count as explained only when the chat was told.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

_INTERRUPTED = "interrupted by a restart"
_GAVE_UP = "so I gave up"
_BROKEN = "went wrong inside Hermes"
_STOPPED = ("Stopped.", "Stopped what I was doing.")
_FULL = "messages are already waiting"


@dataclass(slots=True, kw_only=True)
class Sent:
    id: str
    chat: str
    text: str
    place: int  # in the order of sending
    expect: str  # stands in a proper answer
    instead: str = ""  # what may stand there since the message was edited
    acked: bool = False
    may_fail: bool = False  # when it was not taken, the platform says so to whoever sent it
    was_late: bool = False  # the network brought it after later ones: it has no place in the order

    def is_met(self, text: str) -> bool:
        return self.expect in text or bool(self.instead and self.instead in text)

    @property
    def is_command(self) -> bool:
        return self.text.startswith("/")

    @property
    def stops(self) -> bool:
        return self.text.startswith(("/stop", "/new"))

    @property
    def has_effect(self) -> bool:
        return "side_effect" in self.text


@dataclass(slots=True, kw_only=True)
class Arrival:
    key: str
    chat: str
    text: str  # grows when a long one comes in pieces
    answers: tuple[str, ...]
    reply_to: str = ""
    asked_for: bool = False  # sent (again) because somebody pressed a button: it has no place in the order


@dataclass(slots=True, kw_only=True)
class Verdict:
    sent: int = 0
    accepted: int = 0
    answered: int = 0
    explained: int = 0
    failed: int = 0  # not taken, as the platform has told whoever sent it
    copies: int = 0  # arrived again: dropped as the protocol says, or because somebody had asked for it
    effects: int = 0
    offences: dict[str, list[str]] = field(default_factory=dict)

    def accuse(self, offence: str, *offenders: str) -> None:
        if offenders:
            self.offences.setdefault(offence, []).extend(offenders)

    def count(self, offence: str) -> int:
        return len(self.offences.get(offence, ()))

    @property
    def counts(self) -> dict[str, int]:
        return {offence: len(offenders) for offence, offenders in self.offences.items()}

    def __str__(self) -> str:
        lines = [
            f"{self.sent} sent, {self.accepted} accepted, {self.answered} answered, {self.explained} explained, "
            f"{self.effects} effects, {self.copies} copies"
        ]
        for offence, offenders in self.offences.items():
            lines += [f"{offence}: {len(offenders)}", *(f"  {offender}" for offender in offenders[:20])]
        return "\n".join(lines)


class Ledger:
    def __init__(self) -> None:
        self.messages: dict[str, Sent] = {}
        self.arrivals: list[Arrival] = []  # without copies
        self.copies = 0
        self.complaints: list[str] = []
        self._answers: dict[str, list[Arrival]] = {}
        self._keys: set[str] = set()
        self._places = 0
        self._changed = asyncio.Event()

    def sent(self, chat: str, text: str, *, expect: str = "") -> Sent:
        id_ = f"m{len(self.messages) + 1}"
        message = Sent(
            id=id_,
            chat=chat,
            text=text.replace("$id", id_),
            place=self._next_place(),
            expect=expect.replace("$id", id_),
        )
        self.messages[id_] = message
        return message

    def put_off(self, id_: str) -> None:
        self.messages[id_].place = self._next_place()

    def acked(self, id_: str) -> None:
        self.messages[id_].acked = True
        self._changed.set()

    def arrived(self, arrival: Arrival) -> None:
        if arrival.key in self._keys:
            self.copies += 1
            return
        self._keys.add(arrival.key)
        self.arrivals.append(arrival)
        for id_ in arrival.answers:
            self._answers.setdefault(id_, []).append(arrival)
        self._changed.set()

    def complained(self, line: str) -> None:
        self.complaints.append(line)

    def answer(self, message: Sent) -> str:
        """The text that answers a message; empty while there is none."""
        return self._answers[message.id][0].text if message.id in self._answers else ""

    def notices(self, chat: str, words: str) -> list[Arrival]:
        return [one for one in self.arrivals if one.chat == chat and not one.answers and words in one.text]

    def unanswered(self) -> list[Sent]:
        return [message for message in self.messages.values() if message.id not in self._answers]

    def waiting(self, chat: str) -> int:
        """How many messages of a chat can still be answered: one that a later one has overtaken cannot."""
        waiting = 0
        for message in reversed(self.messages.values()):
            if message.chat == chat and not message.is_command:
                if message.id in self._answers:
                    break
                waiting += 1
        return waiting

    async def until(self, come_true: Callable[[], bool], *, seconds: float = 30.0) -> None:
        """Waits for something in this ledger; raises TimeoutError."""
        async with asyncio.timeout(seconds):
            while True:
                self._changed.clear()
                if come_true():
                    return
                await self._changed.wait()

    def judge(self, *, effects: Counter[str], outcomes: Mapping[str, str], in_doubt: Collection[str] = ()) -> Verdict:
        """`outcomes` is what the database says of each message, by id; `in_doubt` has the ids of those whose chat
        was told that the answer may not have arrived."""
        verdict = Verdict(sent=len(self.messages), copies=self.copies, effects=effects.total())
        for message in self.messages.values():
            verdict.accepted += message.acked
            self._judge_message(verdict, message, outcomes.get(message.id, ""), in_doubt)
            if message.has_effect:
                self._judge_effect(verdict, message, effects[message.id], in_doubt)
        for chat in {message.chat for message in self.messages.values()}:
            for commands, may_fail in ((False, False), (True, False), (True, True)):
                self._judge_order(verdict, chat, commands=commands, may_fail=may_fail)
        verdict.accuse("tool ran twice", *(f"{id_}: {runs} times" for id_, runs in effects.items() if runs > 1))
        verdict.accuse("tool ran unasked", *(id_ for id_ in effects if id_ not in self.messages))
        verdict.accuse("answered unasked", *(id_ for id_ in self._answers if id_ not in self.messages))
        verdict.accuse("complaint", *self.complaints)
        return verdict

    def _judge_message(self, verdict: Verdict, message: Sent, outcome: str, in_doubt: Collection[str]) -> None:
        answers = self._answers.get(message.id, [])
        if len(answers) > 1:
            verdict.accuse("answered twice", f"{_shown(message)} by {', '.join(one.key for one in answers)}")
        if not answers:
            if message.id in in_doubt or self._was_told(message, outcome, in_doubt):
                verdict.explained += 1
            elif message.acked:
                verdict.accuse("lost", f"{_shown(message)}; the database says: {outcome or 'nothing'}")
            elif message.may_fail and not outcome:
                verdict.failed += 1
            else:
                verdict.accuse("never accepted", _shown(message))
        elif _BROKEN in answers[0].text:
            verdict.accuse("broken inside", f"{_shown(message)}: {_short(answers[0].text)}")
        elif _GAVE_UP in answers[0].text or (message.has_effect and not _did(message, answers)):
            verdict.explained += 1
        elif message.is_met(answers[0].text):
            verdict.answered += 1
        elif message.id in in_doubt:  # the rest of a long answer
            verdict.explained += 1
        else:
            verdict.accuse("answered wrongly", f"{_shown(message)}: {_short(answers[0].text)}")

    def _judge_effect(self, verdict: Verdict, message: Sent, runs: int, in_doubt: Collection[str]) -> None:
        answers = self._answers.get(message.id, [])
        if _did(message, answers) and runs != 1:
            verdict.accuse("effect claimed", f"{_shown(message)} is said to be done and ran {runs} times")
        if answers and not _did(message, answers) and message.id not in in_doubt and not _is_excuse(answers[0].text):
            verdict.accuse("answered wrongly", f"{_shown(message)}: {_short(answers[0].text)}")

    def _judge_order(self, verdict: Verdict, chat: str, *, commands: bool, may_fail: bool) -> None:
        """Commands overtake messages, those that may fail others, but none their own kind."""
        arrived = [
            message
            for arrival in self.arrivals
            if arrival.chat == chat and not arrival.asked_for
            for id_ in arrival.answers
            if (message := self.messages.get(id_)) is not None
            and (message.is_command, message.may_fail, message.was_late) == (commands, may_fail, False)
        ]
        for earlier, later in pairwise(arrived):
            if earlier.place > later.place:
                verdict.accuse("out of order", f"{_shown(later)} was answered after {_shown(earlier)}")

    def _was_told(self, message: Sent, outcome: str, in_doubt: Collection[str]) -> bool:
        if outcome == "queue full":
            return bool(self.notices(message.chat, _FULL))
        stops = [one for one in self.messages.values() if one.stops and one.chat == message.chat]
        if outcome == "stopping already":  # the one before it was answered
            return any(self.answer(stop) or stop.id in in_doubt for stop in stops)
        return outcome == "stopped" and any(
            self.answer(stop).startswith(_STOPPED) or stop.id in in_doubt for stop in stops
        )

    def _next_place(self) -> int:
        self._places += 1
        return self._places


def _did(message: Sent, answers: list[Arrival]) -> bool:
    return bool(answers) and f"did {message.id}." in answers[0].text


def _is_excuse(text: str) -> bool:
    return any(words in text for words in (_INTERRUPTED, _GAVE_UP, _BROKEN))


def _shown(message: Sent) -> str:
    return f"{message.id} in {message.chat} ({message.text})"


def _short(text: str) -> str:
    return text if len(text) <= 300 else f"{text[:150]} … {text[-150:]}"
