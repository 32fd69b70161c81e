"""What can be seen of a running turn: typing, a draft, a reaction, and no harm when it cannot be shown."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest

from agent_core.conversation import ToolCall
from agent_core.events import TextDelta, ToolStarted, ToolWaiting
from gateway.clock import now_ms
from gateway.errors import PlatformUnavailable
from gateway.messages import Address, SessionKey, Text
from gateway.outbound import drafts as drafts_module
from gateway.outbound import live_reply
from gateway.outbound.drafts import Drafts
from gateway.outbound.live_reply import LiveReply, Showing
from gateway.store.db.database import Database
from gateway.store.inbox import Accepted
from gateway.store.turns import Turn
from hermes_config.redaction import Redactor
from tests.gateway.easel import STYLE, Easel
from tests.gateway.scene import ACCOUNT, soon


async def _shown(address: Address) -> None:
    return None


@dataclass
class Typist:
    """A platform that can say "typing", as the test wishes."""

    on_typing: Callable[[Address], Awaitable[None]] = _shown
    seen: asyncio.Queue[str] = field(default_factory=asyncio.Queue)

    async def show_typing(self, address: Address) -> None:
        self.seen.put_nowait(address.chat)
        await self.on_typing(address)

    async def said_in(self, *chats: str, times: int) -> None:
        seen: Counter[str] = Counter()
        while any(seen[chat] < times for chat in chats):
            seen[await self.seen.get()] += 1


def turn_in(chat: str, account: str = ACCOUNT, *, kind: str = "dm", resumes: int = 0, asked_ms: int = 0) -> Turn:
    message = Accepted(
        id=1,
        key=SessionKey(platform=account, kind=kind, chat=chat),
        kind="message",
        message_id="1",
        sender_id="42",
        sender_name="Ada",
        person_id=None,
        role="owner",
        parts=(Text(text="hello"),),
        asked_ms=asked_ms or now_ms(),
    )
    return Turn(id=f"turn {chat}", session_key=str(message.key), session_id="s", resumes=resumes, messages=(message,))


@asynccontextmanager
async def typing(typist: Typist, *, seconds: float = 0.01) -> AsyncIterator[LiveReply]:
    live = LiveReply(
        Redactor(), types={ACCOUNT: typist}, showing=Showing(typing_seconds=seconds, typing_after_seconds=0)
    )
    async with asyncio.TaskGroup() as group:
        task = group.create_task(live.run())
        yield live
        task.cancel()


def typing_tasks() -> set[str]:
    return {task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("typing")}


async def no_typing_left() -> None:
    while typing_tasks():
        await asyncio.sleep(0)


async def test_typing_is_said_and_said_again_until_the_turn_ends() -> None:
    typist = Typist()
    async with typing(typist) as live:
        async with live.watch(turn_in("home")):
            assert [await soon(typist.seen.get()) for _ in range(3)] == ["home"] * 3
        await soon(no_typing_left())


async def test_typing_ends_with_a_turn_that_fails() -> None:
    typist = Typist()
    async with typing(typist, seconds=1000.0) as live:

        async def fail() -> None:
            async with live.watch(turn_in("home")):
                await soon(typist.seen.get())
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fail()
        await soon(no_typing_left())


async def test_a_turn_that_is_over_before_anybody_looked_shows_nothing() -> None:
    typist = Typist()
    async with typing(typist) as live:
        async with live.watch(turn_in("home")):
            pass
        async with live.watch(turn_in("office")):
            assert await soon(typist.seen.get()) == "office"


async def test_a_platform_that_cannot_show_it_is_not_asked() -> None:
    typist = Typist()
    async with typing(typist) as live, live.watch(turn_in("home", account="other")), live.watch(turn_in("office")):
        assert await soon(typist.seen.get()) == "office"


@pytest.mark.parametrize(
    "error", [PlatformUnavailable("down"), TimeoutError(), ZeroDivisionError()], ids=lambda error: type(error).__name__
)
async def test_typing_that_fails_is_tried_again_and_disturbs_nobody(error: Exception) -> None:
    async def fail_at_home(address: Address) -> None:
        if address.chat == "home":
            raise error

    typist = Typist(on_typing=fail_at_home)
    async with typing(typist) as live:
        async with live.watch(turn_in("home")), live.watch(turn_in("office")):
            await soon(typist.said_in("home", "office", times=3))
        await soon(no_typing_left())


async def test_typing_cancelled_from_inside_ends_that_alone() -> None:
    async def give_up_at_home(address: Address) -> None:
        if address.chat == "home":
            raise asyncio.CancelledError

    typist = Typist(on_typing=give_up_at_home)
    async with typing(typist) as live, live.watch(turn_in("home")), live.watch(turn_in("office")):
        await soon(typist.said_in("office", times=3))


async def test_typing_that_hangs_holds_up_neither_the_turn_nor_others() -> None:
    async def hang_at_home(address: Address) -> None:
        if address.chat == "home":
            await asyncio.Event().wait()

    typist = Typist(on_typing=hang_at_home)
    async with typing(typist) as live:
        async with live.watch(turn_in("home")), live.watch(turn_in("office")):
            await soon(typist.said_in("home", "office", times=3))  # given up after a while, and tried again
        await soon(no_typing_left())


async def test_a_turn_that_never_ends_does_not_type_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_reply, "_LONGEST_TYPING_SECONDS", 0.03)
    typist = Typist()
    async with typing(typist) as live, live.watch(turn_in("home")):
        await soon(typist.seen.get())
        await soon(no_typing_left())


async def test_an_answer_that_is_there_at_once_needs_no_typing() -> None:
    typist = Typist()
    live = LiveReply(Redactor(), types={ACCOUNT: typist}, showing=Showing(typing_after_seconds=0))
    async with asyncio.TaskGroup() as group:
        task = group.create_task(live.run())
        async with live.watch(turn_in("quick")):
            pass  # over before the loop has turned once
        async with live.watch(turn_in("slow")):
            assert await soon(typist.seen.get()) == "slow"
        task.cancel()
    assert typist.seen.empty()


async def test_nobody_types_while_a_person_is_waited_for() -> None:
    typist = Typist()
    async with typing(typist) as live, live.watch(turn_in("home")) as watched:
        await soon(typist.seen.get())
        watched.emit(ToolWaiting(waits=True))
        await asyncio.sleep(0)  # one may have been under way
        while not typist.seen.empty():
            typist.seen.get_nowait()
        for _ in range(10):
            await asyncio.sleep(0.01)
        assert typist.seen.empty()
        watched.emit(ToolWaiting(waits=False))
        await soon(typist.seen.get())


@asynccontextmanager
async def drawing(easel: Easel, db: Database, **showing: float | str) -> AsyncIterator[LiveReply]:
    chosen = {"draft_after_seconds": 0.0, "seen_after_seconds": 0.0, "watching_seconds": 60.0, **showing}
    live = LiveReply(
        Redactor(),
        reacts={ACCOUNT: easel},
        drafts=Drafts(db=db, platforms={ACCOUNT: easel}, shown_on={ACCOUNT}),
        showing=Showing(**chosen),  # type: ignore[arg-type]
    )
    async with asyncio.TaskGroup() as group:
        task = group.create_task(live.run())
        yield live
        task.cancel()


async def test_whoever_was_answered_soon_gets_the_answer_in_place(db: Database) -> None:
    easel = Easel()
    async with drawing(easel, db) as live:
        async with live.watch(turn_in("home")) as watched:
            await easel.until(lambda: easel.shown)
        assert watched.finishes_in_place


async def test_whoever_asked_long_ago_is_rung_though_the_turn_was_short(db: Database) -> None:
    easel = Easel()
    async with drawing(easel, db) as live:
        async with live.watch(turn_in("home", asked_ms=now_ms() - 61_000)) as watched:
            await easel.until(lambda: easel.shown)
        assert not watched.finishes_in_place


async def test_where_a_draft_rings_the_answer_always_takes_its_place(db: Database) -> None:
    easel = Easel(style=replace(STYLE, rings=True))
    async with drawing(easel, db) as live:
        async with live.watch(turn_in("home", asked_ms=1)) as watched:
            await easel.until(lambda: easel.shown)
        assert watched.finishes_in_place


async def test_an_answer_does_not_wait_for_ever_for_its_draft_and_then_takes_no_place(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_go_on = asyncio.Event()

    async def wait(what: str) -> None:
        if what == "edit":
            await may_go_on.wait()

    monkeypatch.setattr(live_reply, "_SETTLE_SECONDS", 0.01)
    easel = Easel(before=wait, style=replace(STYLE, rings=True))
    async with drawing(easel, db) as live:
        async with live.watch(turn_in("home")) as watched:
            await easel.until(lambda: easel.shown)
            watched.emit(TextDelta(text="Half. "))
            await easel.until(lambda: "edit" in easel.did)
        assert not watched.finishes_in_place
        may_go_on.set()


async def test_no_change_of_the_draft_is_under_way_when_the_turn_has_ended(db: Database) -> None:
    may_go_on = asyncio.Event()

    async def wait(what: str) -> None:
        if what == "edit":
            await may_go_on.wait()

    easel = Easel(before=wait)
    async with drawing(easel, db) as live:
        async with live.watch(turn_in("home")) as watched:
            await easel.until(lambda: easel.shown)
            watched.emit(TextDelta(text="Half. "))
            await easel.until(lambda: "edit" in easel.did)
            asyncio.get_running_loop().call_later(0.05, may_go_on.set)
        assert "Half." in easel.shown["draft 1"]
        assert watched.finishes_in_place


async def test_a_change_that_may_still_come_about_takes_no_answers_place(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(what: str) -> None:
        if what == "edit":
            await asyncio.Event().wait()

    monkeypatch.setattr(drafts_module, "_CALL_SECONDS", 0.02)
    easel = Easel(before=hang)
    async with drawing(easel, db) as live:
        async with live.watch(turn_in("home")) as watched:
            await easel.until(lambda: easel.shown)
            watched.emit(TextDelta(text="Half. "))
            await easel.until(lambda: easel.did.count("edit") == 2)
        assert not watched.finishes_in_place


async def test_a_turn_that_is_over_before_its_draft_is_due_shows_none(db: Database) -> None:
    easel = Easel()
    async with drawing(easel, db, draft_after_seconds=1000.0) as live, live.watch(turn_in("home")) as watched:
        watched.emit(TextDelta(text="quick"))
    assert easel.did == []


async def shown_heads(easel: Easel, db: Database, turn: Turn, verbosity: str = "") -> str:
    async with drawing(easel, db) as live, live.watch(turn, verbosity) as watched:
        watched.emit(ToolStarted(call=ToolCall(id="1", name="todo", arguments="{}")))
        await easel.until(lambda: easel.written)
        return easel.written[0]  # what an earlier one has left in the store is taken away meanwhile


async def test_tools_are_told_in_direct_messages_and_not_in_groups_unless_asked_for(db: Database) -> None:
    assert await shown_heads(Easel(), db, turn_in("1")) == "☑️ todo"
    assert await shown_heads(Easel(), db, turn_in("2", kind="group")) == "💭 Thinking…"
    assert await shown_heads(Easel(), db, turn_in("3", kind="group"), "all") == "☑️ todo"
    assert await shown_heads(Easel(), db, turn_in("4"), "off") == "💭 Thinking…"
    assert await shown_heads(Easel(), db, turn_in("5"), "no such mode") == "☑️ todo"


async def test_in_a_group_the_message_is_marked_as_seen_until_it_is_answered(db: Database) -> None:
    easel = Easel(style=None)
    async with drawing(easel, db) as live:
        async with live.watch(turn_in("home", kind="group")):
            await easel.until(lambda: easel.marks == ["seen"])
        await easel.until(lambda: easel.marks == ["seen", ""])


async def test_a_turn_that_failed_is_marked_so(db: Database) -> None:
    easel = Easel(style=None)
    async with drawing(easel, db, seen_after_seconds=1000.0) as live:

        async def fail() -> None:
            async with live.watch(turn_in("home", kind="group")):
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fail()
        await easel.until(lambda: easel.marks == ["failed"])


async def test_the_mark_of_a_turn_that_a_crash_has_cut_is_taken_away(db: Database) -> None:
    easel = Easel(style=None)
    async with drawing(easel, db, seen_after_seconds=1000.0) as live:
        async with live.watch(turn_in("home", kind="group", resumes=1)):
            pass
        await easel.until(lambda: easel.marks == [""])


async def test_a_mark_is_taken_away_after_it_was_put_there(db: Database) -> None:
    may_go_on = asyncio.Event()

    async def wait(what: str) -> None:
        await may_go_on.wait()

    easel = Easel(style=None, before=wait)
    async with drawing(easel, db) as live:
        async with live.watch(turn_in("home", kind="group")):
            await easel.until(lambda: easel.did == ["react"])
        may_go_on.set()
        await easel.until(lambda: easel.marks == ["seen", ""])


async def test_a_reaction_that_cannot_be_shown_disturbs_nobody(db: Database) -> None:
    async def fail(what: str) -> None:
        raise PlatformUnavailable("down")

    easel = Easel(style=None, before=fail)
    async with drawing(easel, db) as live:
        async with live.watch(turn_in("home", kind="group")):
            await easel.until(lambda: easel.did == ["react"])
        await easel.until(lambda: easel.did == ["react", "react"])


async def test_in_direct_messages_nothing_is_marked(db: Database) -> None:
    easel = Easel()
    async with drawing(easel, db) as live, live.watch(turn_in("home")):
        await easel.until(lambda: easel.shown)
    assert easel.marks == []


async def test_a_stopped_turn_leaves_no_draft(db: Database) -> None:
    easel = Easel()
    async with drawing(easel, db) as live:

        async def work() -> None:
            async with live.watch(turn_in("home")):
                await asyncio.Event().wait()

        task = asyncio.create_task(work())
        await easel.until(lambda: easel.shown)
        task.cancel()
        await asyncio.wait([task])
        await easel.until(lambda: not easel.shown)
