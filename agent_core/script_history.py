"""Remember how conversations of scripts were shortened: a script hands in the whole conversation each time.

In memory, for the last few conversations. One that is not recognised is shortened again.
"""

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import islice

from agent_core.compaction import Summary
from agent_core.compactor import CompactionReport, CompactionStep
from agent_core.conversation import ListJournal, Message

_REMEMBERED = 100
_STUBS = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortened:
    """The beginning of a conversation, and what is shown of it; positions are those of the whole conversation."""

    head: int = 0
    upto: int = 0
    pinned: tuple[int, ...] = ()
    summary: Summary | None = None


@dataclass(slots=True)
class ScriptHistory:
    _known: OrderedDict[bytes, Shortened] = field(default_factory=OrderedDict)  # by what they stand for
    _stubs: OrderedDict[bytes, Message] = field(default_factory=OrderedDict)  # by the whole result

    def find(self, conversation: Sequence[Message]) -> Shortened:
        """Return how much of the conversation is summarised already."""
        found = Shortened()
        for digest in _digests(conversation):
            found = self._known.get(digest, found)
        return found

    def show(self, conversation: Sequence[Message], known: Shortened) -> tuple[list[Message], int]:
        """Return the conversation as the model is shown it, and how many messages precede the rest."""
        lead = [*conversation[: known.head], *([known.summary.to_message()] if known.summary else [])]
        rest = (*(conversation[place] for place in known.pinned), *conversation[known.upto :])
        shown = [self._stubs.get(_digest(message), message) if message.role == "tool" else message for message in rest]
        return [*lead, *shown], len(lead)

    def remember(self, conversation: Sequence[Message], known: Shortened) -> None:
        digest = next(islice(_digests(conversation), known.upto - 1, None))
        self._known[digest] = known
        while len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)

    def remember_stub(self, result: Message, stub: Message) -> None:
        self._stubs[_digest(result)] = stub
        while len(self._stubs) > _STUBS:
            self._stubs.popitem(last=False)


@dataclass(slots=True)
class ScriptLedger:
    """Implements `Ledger` for one run."""

    history: ScriptHistory
    conversation: Sequence[Message]  # as it was handed in
    journal: ListJournal  # and what the run has added
    known: Shortened

    async def replace_results(self, stubs: Mapping[str, Message]) -> None:
        for message in self._whole[min((self.known.upto, *self.known.pinned)) :]:
            if message.role == "tool" and message.tool_call_id in stubs:
                self.history.remember_stub(message, stubs[message.tool_call_id])

    async def commit(self, step: CompactionStep) -> None:
        whole, known = self._whole, self.known
        spoken = [*known.pinned, *(n for n in range(known.upto, len(whole)) if whole[n].role != "tool"), len(whole)]
        self.known = Shortened(
            head=spoken[step.head] if step.head else known.head,
            upto=spoken[step.covers],
            pinned=tuple(spoken[place] for place in step.pinned),
            summary=step.summary,
        )
        self.history.remember(whole, self.known)

    async def finish(self, report: CompactionReport) -> None:
        """Nothing is left to do."""

    @property
    def _whole(self) -> list[Message]:
        return [*self.conversation, *self.journal.messages]


def _digests(conversation: Sequence[Message]) -> Iterator[bytes]:
    """Yield a digest of the first message, of the first two, and so on."""
    running = sha256()
    for message in conversation:
        running.update(_digest(message))
        yield running.digest()


def _digest(message: Message) -> bytes:
    calls = [(call.id, call.name, call.arguments) for call in message.tool_calls]
    return sha256(repr((message.role, message.text, calls, message.tool_call_id)).encode(errors="replace")).digest()
