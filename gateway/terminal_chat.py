"""A conversation at the terminal, in this process: same store and loop, but no delivery.

It has a session of its own. Its messages have inbox rows only for the trail: no gateway picks them up.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from agent_core.conversation import Message
from agent_core.events import Emit, ignore
from agent_core.history import open_calls, stopped_by_user
from agent_core.model import ModelError
from gateway.clock import new_id
from gateway.commands.reasoning import quote_thoughts
from gateway.commands.registry import CommandCall, Commands, parse
from gateway.errors import CommandRefused
from gateway.messages import SessionKey
from gateway.policies.access import Role
from gateway.processes.terminal import LocalProcesses
from gateway.stopwatch import Stopwatch
from gateway.store import sessions, skill_proposals, transcripts, turns
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.store.people import OWNER
from gateway.store.processes import AT_TERMINAL
from gateway.store.sessions import title_of
from gateway.store.turns import OpenedTurn, Outcome, Turn
from gateway.turns.compacting import Tell
from gateway.turns.journal import record_model_reply
from gateway.turns.runner import TurnRunner
from tools.backends.base import ProcessBackends, Workplace
from tools.base import Tool
from tools.content import Media, Text
from tools.provenance import STDIN

_RESUMABLE = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalChat:
    runner: TurnRunner
    commands: Commands
    key: SessionKey
    role: Role = "owner"  # of the person who types commands
    workplace: Workplace
    backends: ProcessBackends
    tools: Sequence[Tool] = ()  # those of every conversation, for the banner
    folder: str = ""  # in which it takes place, by which editors list it
    _process_reports: list[Text] = field(default_factory=list, init=False)  # for the agent, with its next message

    @property
    def db(self) -> Database:
        return self.runner.db

    async def say(self, text: str, emit: Emit = ignore, *, piped: str = "", files: Sequence[Media] = ()) -> str:
        """Return the answer to a message or a command; raises ModelError and CommandRefused.

        `piped` and `files` belong to the message, but are not the user's own words.
        """
        self._process_reports.extend(await LocalProcesses(self.db, self.backends).report_ends())
        if command := parse(text):
            return await self._run_command(*command, emit)
        reports = tuple(self._process_reports)
        self._process_reports.clear()
        attached = (Text(text=f"Standard input:\n{piped}", origin=STDIN),) if piped else ()
        return await self._answer(
            Message(role="user", parts=(*reports, Text(text=text), *attached, *files)), title_of(text), emit
        )

    async def _run_command(self, name: str, arguments: str, emit: Emit) -> str:
        spec = self.commands.find(name)
        if spec is not None and spec.needs is not None:
            await spec.needs.refresh()  # before the transaction
        call = CommandCall(
            key=self.key,
            name=name,
            arguments=arguments,
            role=self.role,
            place="cli",
            model=self.runner.preferences.model or self.runner.model.name,
            person_id=OWNER,
            processes_of=AT_TERMINAL,
        )
        reply = await self.db.write(lambda tx: self.commands.run(tx, call))
        if self.runner.memory is not None:
            await self.runner.memory.files.write_pending(self.db)
        if reply.refused:
            raise CommandRefused(reply.text)
        if reply.compress_to:
            return await self._compress(reply.compress_to)
        if reply.starts is not None:
            said = Message(role="user", parts=reply.starts.parts)
            return await self._answer(said, title_of(said.text), emit, call=reply.starts.call)
        return "\n".join([reply.text, *await LocalProcesses(self.db, self.backends).end_requested()])

    async def _compress(self, target_tokens: int) -> str:
        warnings: list[str] = []
        runner = self._warn_in(warnings)

        def begin(tx: Transaction) -> tuple[Turn, OpenedTurn]:
            turn = turns.begin_at_terminal(tx, self.key, sessions.open_current(tx, self.key).id)
            return turn, runner.load(tx, turn)

        turn, opened = await self.db.write(begin)
        try:
            async with self._ending(turn):
                report = await runner.compress(turn, opened, self.workplace, target_tokens)
            await self.db.write(lambda tx: self._end(tx, turn, Outcome.ANSWERED))
        finally:
            runner.meter.close(turn)
        return "\n\n".join([report, *warnings])

    def _warn_in(self, warnings: list[str]) -> TurnRunner:
        return replace(self.runner, meter=replace(self.runner.meter, say=warnings.append))

    async def _answer(self, message: Message, title: str, emit: Emit, *, call: str = "") -> str:
        warnings: list[str] = []
        runner = self._warn_in(warnings)

        def begin(tx: Transaction) -> tuple[Turn, OpenedTurn]:
            session = sessions.open_current(tx, self.key)
            turn = turns.begin_at_terminal(tx, self.key, session.id)
            transcripts.append(tx, session.id, message, turn_id=turn.id)
            sessions.set_title(tx, session.id, title)
            sessions.set_folder(tx, session.id, self.folder)
            return turn, runner.load(tx, turn, call)

        turn, opened = await self.db.write(begin)
        try:
            final = await self._run(runner, turn, opened, emit, lambda tx, text: warnings.append(text))
            if not call:
                await runner.look_back(turn)
        finally:
            runner.meter.close(turn)
        proposed = await self.db.read(lambda tx: skill_proposals.list_waiting(tx, turn_id=turn.id))
        thoughts = [quote_thoughts(final.reasoning)] if opened.settings.show_reasoning and final.reasoning else []
        noted = [f"({warning})" for warning in warnings]
        return "\n\n".join([*thoughts, final.text, *noted, *(one.question for one in proposed)])

    async def _run(self, runner: TurnRunner, turn: Turn, opened: OpenedTurn, emit: Emit, tell: Tell) -> Message:
        """Run the turn, and commit how it ended; return its answer."""
        stopwatch = Stopwatch(emit)
        async with self._ending(turn):
            outcome = await runner.run(turn, opened, self.workplace, stopwatch, tell=tell)
        last_call = stopwatch.model_replied()

        def answer(tx: Transaction) -> None:
            transcripts.append(tx, turn.session_id, outcome.final, turn_id=turn.id)
            record_model_reply(tx, turn, last_call)
            self._end(tx, turn, Outcome.ANSWERED)

        await self.db.write(answer)
        return outcome.final

    @asynccontextmanager
    async def _ending(self, turn: Turn) -> AsyncIterator[None]:
        """Commit the end of a turn that is stopped or fails meanwhile."""
        try:
            yield
        except asyncio.CancelledError:
            await self.db.write(lambda tx: self._stop(tx, turn))
            raise
        except BaseException as error:
            problem = type(error).__name__ if isinstance(error, ModelError) else None
            await self.db.write(lambda tx: self._end(tx, turn, Outcome.FAILED, problem))
            raise

    def _stop(self, tx: Transaction, turn: Turn) -> None:
        # Or the model would take open calls for ones that were cut off.
        for call in open_calls(transcripts.turn(tx, turn.session_id, turn.id)):
            transcripts.append(tx, turn.session_id, stopped_by_user(call), turn_id=turn.id)
        self._end(tx, turn, Outcome.STOPPED)

    def _end(self, tx: Transaction, turn: Turn, outcome: Outcome, problem: str | None = None) -> None:
        self.runner.meter.settle(tx, turn)  # a failed or stopped turn costs, too
        turns.finish(tx, turn.id, turn.messages, outcome, problem=problem)


def new_key() -> SessionKey:
    return SessionKey(platform="cli", chat=new_id()[:8])


def find_key(tx: Transaction, chat: str) -> SessionKey | None:
    """Return the key of a conversation at the terminal by its `chat`; None when nothing was said there."""
    key = SessionKey(platform="cli", chat=chat)
    return key if sessions.find(tx, str(key)) is not None else None


def resume_key(tx: Transaction, name: str = "") -> SessionKey:
    """Return the key of an old conversation at the terminal and make that one current: the last one used, or the one
    with this id, beginning of an id, or words of its title. Raises CommandRefused."""
    known = sessions.recent(tx, platform="cli", limit=_RESUMABLE)
    words = name.casefold().split()
    by_id = [one for one in known if name and one.id.startswith(name)]
    found = by_id or [one for one in known if all(word in one.title.casefold() for word in words)]
    if not found:
        raise CommandRefused(
            f"No conversation at the terminal fits {name!r}. `hermes sessions list --platform cli` lists them."
            if name
            else "There is no conversation to continue yet. Begin one: hermes chat"
        )
    if found[0].ended_ms is not None:
        sessions.resume(tx, found[0].key, found[0].id)
    return SessionKey(platform="cli", chat=found[0].key.partition(":")[2])
