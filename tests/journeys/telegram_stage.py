"""A Telegram, a model server and a real gateway between them: what every Telegram story is played on.

The stage is set as an operator sets it, by `config.yaml` and `.env`, so the gateway and the `hermes` beside it
read the same.
"""

import asyncio
import json
import os
import re
import signal
import sqlite3
import sys
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from aiohttp import ClientSession, web

from gateway.lock import read_state
from playground.model_script import Step, say
from playground.model_server import ModelServer
from playground.telegram.rules import Wire
from playground.telegram.server import Call, TelegramServer
from tests.journeys.gateway_process import ROOT

T = TypeVar("T")

PATIENCE_SECONDS = 30.0  # for anything; on an idle machine it takes milliseconds
OWNER = 1001  # who owns every home here
CODE = re.compile(r"\b[A-HJ-NP-Z2-9]{8}\b")


class WatchedModel(ModelServer):
    """A model server that can be waited for, and that keeps its answers back while `may_answer` is not set."""

    def __init__(self, *, otherwise: Step | None = None) -> None:
        super().__init__(otherwise=otherwise or say("Noted."))
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self._stirred = asyncio.Event()

    async def until_asked(self, times: int, *, seconds: float = PATIENCE_SECONDS) -> None:
        async with asyncio.timeout(seconds):
            while len(self.requests) < times:
                stirred = self._stirred
                await stirred.wait()

    def words(self, request: int = -1) -> str:
        """All that the model was shown in one request."""
        return "\n".join(_words(message) for message in self.bodies[request]["messages"])

    def newest_words(self, request: int = -1) -> str:
        """The last thing it was shown: what people said since its last answer."""
        return _words(self.bodies[request]["messages"][-1])

    def _remember(self, request: web.Request, body: object, refused: str) -> None:
        super()._remember(request, body, refused)
        self._stirred.set()
        self._stirred = asyncio.Event()

    async def _play(self, step: Step, request: web.Request, body: Mapping[str, Any]) -> web.StreamResponse:
        await self.may_answer.wait()
        return await super()._play(step, request, body)


class RunningGateway:
    """A `hermes gateway run`. What it prints goes to a file: a full pipe would hold it up."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self._process = process
        self._log = log

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def printed(self) -> str:
        return self._log.read_text()

    @property
    def is_running(self) -> bool:
        return self._process.returncode is None

    async def stop(self) -> None:
        """In order, so that what it does by itself is done; nothing but that may have ended it."""
        self._process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(30):
            assert await self._process.wait() == 0, self.printed[-3000:]

    async def kill(self) -> None:
        """kill -9."""
        if self.is_running:
            self._process.kill()
        async with asyncio.timeout(30):
            await self._process.wait()


@dataclass(kw_only=True)
class Home:
    """A home with its settings, and what can be asked of it from outside."""

    path: Path

    @asynccontextmanager
    async def gateway(self) -> AsyncIterator[RunningGateway]:
        log = self.path.with_name(f"{self.path.name}.log")
        with log.open("ab") as output:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-W", "error", "-m", "hermes_cli", "gateway", "run"),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=asyncio.subprocess.STDOUT,
                cwd=ROOT,
                env={**os.environ, "HERMES_HOME": str(self.path)},
            )
        running = RunningGateway(process, log)
        try:
            yield running
        finally:
            await running.kill()

    async def hermes(self, *arguments: str, code: int = 0) -> str:
        """What a `hermes` command prints; it must end with this code."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-W", "error", "-m", "hermes_cli", *arguments),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            cwd=ROOT,
            env={**os.environ, "HERMES_HOME": str(self.path)},
        )
        async with asyncio.timeout(30):
            printed, _ = await process.communicate()
        assert process.returncode == code, printed.decode()
        return printed.decode()

    async def until_platform(
        self, state: str, *, account: str = "telegram", words: str = "", seconds: float = PATIENCE_SECONDS
    ) -> None:
        """Until the gateway says so of a platform, where `hermes status` looks as well."""

        def is_so() -> bool:
            platform = ((read_state(self.path / "gateway.lock") or {}).get("platforms") or {}).get(account, {})
            return bool(platform.get("state") == state and words in platform.get("problem", ""))

        await until(is_so, seconds=seconds)

    async def until_idle(self, *, seconds: float = 30.0) -> None:
        """Until every message that was taken is answered, and every answer delivered."""
        open_ones = """SELECT 1 FROM inbox WHERE state <> 'done' AND kind IN ('message', 'command', 'button')
                       UNION ALL SELECT 1 FROM outbox WHERE state IN ('ready', 'sending', 'unsure')"""
        await until(lambda: not self.rows(open_ones), seconds=seconds)

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.path / "state.db")) as database:
            return database.execute(query, values).fetchall()

    def holds(self, words: str) -> list[str]:
        """Every place of the home, of a dump of its database and of the log in which the words stand."""
        needle = words.encode()
        beside = self.path.with_name(f"{self.path.name}.log")
        files = [path for path in (beside, *self.path.rglob("*")) if path.is_file()]
        found = [str(path) for path in files if needle in path.read_bytes()]
        with closing(sqlite3.connect(self.path / "state.db")) as database:
            found += [line[:80] for line in database.iterdump() if words in line]
        return found


@dataclass(kw_only=True)
class Stage:
    telegram: TelegramServer
    model: WatchedModel
    home: Home

    @property
    def people(self) -> Any:
        return self.telegram.people

    @asynccontextmanager
    async def gateway(self) -> AsyncIterator[RunningGateway]:
        """A gateway that listens to Telegram."""
        events = self.telegram.world.events
        seen = events.last  # a poll of one that was killed may seem to wait still
        async with self.home.gateway() as running:
            try:
                await events.wait_for(lambda: any(one["kind"] == "poll" for one in events.after(seen)), seconds=60)
            except TimeoutError:
                raise AssertionError(f"it does not listen: {running.printed[-3000:]}") from None
            yield running

    def person(self, name: str = "Ada", *, id: int = 0) -> int:  # noqa: A002 Telegram's word
        return int(self.telegram.people.make_user(name, id=id)["id"])

    def say(self, user: int, text: str, *, chat: int = 0, **options: Any) -> int:
        """In the private chat, or in another; gives the message's id."""
        return int(self.telegram.people.send_text(chat or user, user, text, **options)["message_id"])

    async def hear(self, chat: int, words: str, *, seconds: float = PATIENCE_SECONDS) -> Wire:
        try:
            return await self.telegram.wait_for_text(chat, words, seconds=seconds)
        except TimeoutError:
            raise AssertionError(f"nobody said {words!r}: {self.telegram.texts(chat)}") from None

    async def hear_count(self, chat: int, count: int, *, seconds: float = PATIENCE_SECONDS) -> list[str]:
        """What the bot said, once it has said so many things."""
        try:
            await self.telegram.wait_for(lambda: len(self.telegram.texts(chat)) >= count, seconds=seconds)
        except TimeoutError:
            raise AssertionError(f"fewer than {count}: {self.telegram.texts(chat)}") from None
        return self.telegram.texts(chat)

    async def ask(self, user: int, text: str, words: str, *, chat: int = 0, **options: Any) -> Wire:
        self.say(user, text, chat=chat, **options)
        return await self.hear(chat or user, words)

    async def until_taken(self, owner: int) -> None:
        """Until everything that happened so far was taken or refused: updates are handled in their order."""
        said = self.say(owner, "/whoami")
        await self.telegram.wait_for(
            lambda: any(
                shown["by_bot"] and "You are" in shown["text"] and shown["message"]["message_id"] > said
                for shown in self.telegram.show(owner)
            ),
            seconds=PATIENCE_SECONDS,
        )

    def refused_calls(self, status: int) -> list[Call]:
        return [call for call in self.telegram.calls if call.status == status]


UNHURRIED = {"sends_per_second": 30, "chat_sends_per_minute": 60, "group_sends_per_minute": 20}  # as by default
CONFIG: Mapping[str, Any] = {
    "platforms": {
        "socket": {"enabled": True},
        "web": {"enabled": False},
        "telegram": {"poll_seconds": 20, **dict.fromkeys(UNHURRIED, 0)},  # the server has no limits unless told
    },
    "access": {"messages_per_minute": 0, "owner_users": [f"telegram:{OWNER}"]},
    "model": {"name": "playground", "demo_pace_ms": 0},
}


@asynccontextmanager
async def stage(
    tmp_path: Path,
    *,
    name: str = "home",
    demo: bool = False,
    otherwise: Step | None = None,
    config: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    telegram: TelegramServer | None = None,
    privacy: bool = False,
    limits: bool = False,
) -> AsyncIterator[Stage]:
    """`config` goes on top of what all stories share; `demo`: the demo model answers instead of the server's."""
    async with AsyncExitStack() as stack:
        if telegram is None:
            telegram = await stack.enter_async_context(TelegramServer(privacy=privacy, limits=limits))
        model = await stack.enter_async_context(WatchedModel(otherwise=otherwise))
        own = {"model": {"name": "demo"}} if demo else {}
        variables = {
            "TELEGRAM_BOT_TOKEN": telegram.token,
            "TELEGRAM_API_URL": telegram.url,
            "OPENAI_BASE_URL": model.url,
            "OPENAI_API_KEY": model.api_key,
            **(environment or {}),
        }
        home = make_home(tmp_path / name, _merged(CONFIG, _merged(own, config or {})), variables)
        yield Stage(telegram=telegram, model=model, home=home)


def make_home(path: Path, config: Mapping[str, Any], variables: Mapping[str, str]) -> Home:
    path.mkdir(mode=0o700, parents=True)
    (path / "config.yaml").write_text(json.dumps(config))  # JSON is YAML
    secrets = path / ".env"
    secrets.touch(mode=0o600)
    secrets.write_text("".join(f"{name}={value}\n" for name, value in variables.items()))
    return Home(path=path)


async def until(condition: Callable[[], T], *, seconds: float = PATIENCE_SECONDS) -> T:
    """For what only another process knows and nobody announces: looked at again and again."""
    async with asyncio.timeout(seconds):
        while not (value := condition()):
            await asyncio.sleep(0.02)
        return value


def code_in(text: str) -> str:
    found = CODE.search(text)
    assert found is not None, text
    return found[0]


def tokens_in(bodies: Collection[Any], pattern: str) -> set[str]:
    """Which marked texts reached the model, in whatever request."""
    return {found for body in bodies for message in body["messages"] for found in re.findall(pattern, _words(message))}


def _words(message: Mapping[str, Any]) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content)


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        known = merged.get(key)
        both_nested = isinstance(known, Mapping) and isinstance(value, Mapping)
        merged[key] = _merged(known, value) if both_nested else value  # type: ignore[arg-type]
    return merged


@asynccontextmanager
async def two_bots(tmp_path: Path) -> AsyncIterator[tuple[Stage, TelegramServer]]:
    """One gateway with a second bot, `work`: each lives on a server of its own, behind one address."""
    async with (
        TelegramServer() as first,
        TelegramServer(token="43:work-token", username="work_bot") as work,
        _switchboard({server.token: server.url for server in (first, work)}) as address,
        stage(
            tmp_path,
            demo=True,
            telegram=first,
            config={"platforms": {"telegram": {"accounts": ["work"]}}},
            environment={"TELEGRAM_API_URL": address, "TELEGRAM_BOT_TOKEN_WORK": work.token},
        ) as on,
    ):
        yield on, work


@asynccontextmanager
async def _switchboard(servers: Mapping[str, str]) -> AsyncIterator[str]:
    """Passes a bot's calls on to its own server, by its token."""
    async with ClientSession() as session:

        async def pass_on(request: web.Request) -> web.Response:
            root = servers[request.match_info["token"]]
            headers = {"Content-Type": request.headers.get("Content-Type", "")}
            async with session.post(f"{root}{request.path}", data=await request.read(), headers=headers) as answer:
                return web.Response(status=answer.status, body=await answer.read(), content_type=answer.content_type)

        app = web.Application()
        app.router.add_post("/bot{token}/{method}", pass_on)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()
