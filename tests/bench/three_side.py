"""One platform of the playground in a process of its own, and people who write to the bot there.

`python -m tests.bench.three_side telegram` prints one line of JSON: the variables by which a gateway finds it. From
then on each line that it reads is something to do, and each line that it prints what came of it.
"""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from itertools import cycle, islice
from typing import Any

from playground.events import EventLog
from tests.bench.relay_model import ANSWER
from tests.bench.relay_sides import TEXT
from tests.bench.three_platforms import Platform, discord, slack, telegram

_BUILDERS: Mapping[str, Callable[[], Platform]] = {"telegram": telegram, "discord": discord, "slack": slack}
_CHATS = 25
_ANSWERED_WITHIN_SECONDS, _ENDED_WITHIN_SECONDS = 60.0, 3_600.0
_FLAP_SECONDS = 0.25  # up for so long, then away for as long
_SLOW_SECONDS = 2.0


class Chat:
    """Says the next thing when the last one was answered, and counts from when it was to be said."""

    def __init__(self, say: Callable[[str], object]) -> None:
        self._say = say
        self._turn = asyncio.Lock()
        self._answered: asyncio.Future[float] | None = None
        self._heard = ""

    async def ask(self, text: str = TEXT) -> float:
        """Gives the milliseconds until the whole answer was there."""
        began = time.time()
        try:
            async with asyncio.timeout(_ANSWERED_WITHIN_SECONDS), self._turn:
                self._answered = asyncio.get_running_loop().create_future()
                self._say(text)
                return (await self._answered - began) * 1000
        except TimeoutError:
            raise AssertionError(f"not answered; the last that was heard: {self._heard!r}") from None

    async def tell(self, text: str = TEXT) -> float:
        """Says something, and does not wait for an answer."""
        self._say(text)
        return 0.0

    def take(self, text: str, at: float) -> None:
        """What is said or shown so far; it is answered when that is the whole answer."""
        self._heard = text
        waiting = self._answered
        if waiting is not None and not waiting.done() and ANSWER.strip() in text:
            waiting.set_result(at)


class Side:
    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        opened = (platform.open_chat() for _ in range(_CHATS))
        self._chats = {key: Chat(say) for key, say in opened}
        self._on_request: dict[str, Chat] = {}  # of people who say what they are told to, and nothing else
        self._connected: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    async def follow(self) -> None:
        events, seen = self._platform.server.events, 0
        while True:
            await events.wait_for(partial(_is_past, events, seen), seconds=_ENDED_WITHIN_SECONDS)
            news, seen = events.after(seen), events.last
            for event in news:
                self._notice(event)

    def _notice(self, event: Mapping[str, Any]) -> None:
        if not self._connected.done() and self._platform.is_connected(event):
            self._connected.set_result(event["at"])
        if event["kind"] in ("message", "edit") and event["by_bot"]:
            key, text = self._platform.read(event)
            (self._chats.get(key) or self._on_request[key]).take(text, event["at"])

    async def do(self, what: str, **details: Any) -> object:
        match what:
            case "connected":
                async with asyncio.timeout(_ANSWERED_WITHIN_SECONDS):
                    return await self._connected
            case "talk":
                return await self._at_pace(Chat.ask, **details)
            case "open a chat":
                key, say = self._platform.open_chat()
                self._on_request[key] = Chat(say)
                return key
            case "ask":
                return await self._on_request[details["chat"]].ask(details["text"])
            case "tell":
                return await self._on_request[details["chat"]].tell(details["text"])
            case _:
                async with self._trouble(what):
                    return await self._at_pace(Chat.tell, **details)

    async def _at_pace(
        self,
        say: Callable[[Chat], Awaitable[float]],
        *,
        messages: int,
        every_seconds: float,
        after_seconds: float,
    ) -> list[float]:
        """Whether the others are answered or not, as people do who know nothing of each other."""
        loop = asyncio.get_running_loop()
        began = loop.time() + after_seconds
        async with asyncio.TaskGroup() as group:
            tasks = []
            for number, chat in enumerate(islice(cycle(self._chats.values()), messages)):
                await asyncio.sleep(began + number * every_seconds - loop.time())
                tasks.append(group.create_task(_one(say, chat)))
        return [task.result() for task in tasks]

    @asynccontextmanager
    async def _trouble(self, kind: str) -> AsyncIterator[None]:
        platform = self._platform
        match kind:
            case "has a wrong token":
                platform.revoke()
            case "is slow":
                platform.server.faults.add("slow", platform.send_method, count=None, seconds=_SLOW_SECONDS)
            case "flaps":
                platform.server.faults.add("fail", platform.send_method, count=None)
        flapping = asyncio.create_task(self._flap()) if kind == "flaps" else None
        try:
            yield
        finally:
            if flapping is not None:
                flapping.cancel()
                with suppress(asyncio.CancelledError):
                    await flapping

    async def _flap(self) -> None:
        """Cuts every line, goes away, comes back, again and again."""
        while True:
            await self._platform.server.pause()
            await asyncio.sleep(_FLAP_SECONDS)
            await self._platform.server.resume()
            await asyncio.sleep(_FLAP_SECONDS)


async def _one(say: Callable[[Chat], Awaitable[float]], chat: Chat) -> float:
    return await say(chat)


def _is_past(events: EventLog, seen: int) -> bool:
    return events.last > seen


async def _main(name: str) -> None:
    platform = _BUILDERS[name]()
    async with platform.server, asyncio.TaskGroup() as group:
        side = Side(platform)
        following = group.create_task(side.follow())
        _tell(platform.variables())
        while line := await asyncio.to_thread(sys.stdin.readline):
            _tell(await side.do(**json.loads(line)))
        following.cancel()


def _tell(value: object) -> None:
    print(json.dumps(value), flush=True)


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1]))
