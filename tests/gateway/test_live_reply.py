"""What can be seen of a running turn: typing as long as it runs, and no harm when it cannot be shown."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from gateway import live_reply
from gateway.errors import PlatformUnavailable
from gateway.live_reply import LiveReply
from gateway.messages import Address, SessionKey, Text
from gateway.store.inbox import Accepted
from gateway.store.turns import Turn
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


def turn_in(chat: str, account: str = ACCOUNT) -> Turn:
    message = Accepted(
        id=1,
        key=SessionKey(platform=account, kind="dm", chat=chat),
        kind="message",
        message_id="1",
        sender_id="42",
        sender_name="Ada",
        person_id=None,
        role="owner",
        parts=(Text(text="hello"),),
    )
    return Turn(id=f"turn {chat}", session_key=str(message.key), session_id="s", messages=(message,))


@asynccontextmanager
async def typing(typist: Typist, *, seconds: float = 0.01) -> AsyncIterator[LiveReply]:
    live = LiveReply(shows={}, types={ACCOUNT: typist}, typing_seconds=seconds, typing_after_seconds=0)
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
        with live.watch(turn_in("home")):
            assert [await soon(typist.seen.get()) for _ in range(3)] == ["home"] * 3
        await soon(no_typing_left())


async def test_typing_ends_with_a_turn_that_fails() -> None:
    typist = Typist()
    async with typing(typist, seconds=1000.0) as live:

        async def fail() -> None:
            with live.watch(turn_in("home")):
                await soon(typist.seen.get())
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fail()
        await soon(no_typing_left())


async def test_a_turn_that_is_over_before_anybody_looked_shows_nothing() -> None:
    typist = Typist()
    async with typing(typist) as live:
        with live.watch(turn_in("home")):
            pass
        with live.watch(turn_in("office")):
            assert await soon(typist.seen.get()) == "office"


async def test_a_platform_that_cannot_show_it_is_not_asked() -> None:
    typist = Typist()
    async with typing(typist) as live:
        with live.watch(turn_in("home", account="other")), live.watch(turn_in("office")):
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
        with live.watch(turn_in("home")), live.watch(turn_in("office")):
            await soon(typist.said_in("home", "office", times=3))
        await soon(no_typing_left())


async def test_typing_cancelled_from_inside_ends_that_alone() -> None:
    async def give_up_at_home(address: Address) -> None:
        if address.chat == "home":
            raise asyncio.CancelledError

    typist = Typist(on_typing=give_up_at_home)
    async with typing(typist) as live:
        with live.watch(turn_in("home")), live.watch(turn_in("office")):
            await soon(typist.said_in("office", times=3))


async def test_typing_that_hangs_holds_up_neither_the_turn_nor_others() -> None:
    async def hang_at_home(address: Address) -> None:
        if address.chat == "home":
            await asyncio.Event().wait()

    typist = Typist(on_typing=hang_at_home)
    async with typing(typist) as live:
        with live.watch(turn_in("home")), live.watch(turn_in("office")):
            await soon(typist.said_in("home", "office", times=3))  # given up after a while, and tried again
        await soon(no_typing_left())


async def test_a_turn_that_never_ends_does_not_type_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_reply, "_LONGEST_TYPING_SECONDS", 0.03)
    typist = Typist()
    async with typing(typist) as live:
        with live.watch(turn_in("home")):
            await soon(typist.seen.get())
            await soon(no_typing_left())


async def test_an_answer_that_is_there_at_once_needs_no_typing() -> None:
    typist = Typist()
    live = LiveReply(shows={}, types={ACCOUNT: typist}, typing_after_seconds=0)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(live.run())
        with live.watch(turn_in("quick")):
            pass  # over before the loop has turned once
        with live.watch(turn_in("slow")):
            assert await soon(typist.seen.get()) == "slow"
        task.cancel()
    assert typist.seen.empty()
