"""A Telegram, a model server and a real gateway between them: what every Telegram story is played on.

The stage is set as an operator sets it, by `config.yaml` and `.env`, so the gateway and the `hermes` beside it
read the same.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import ClientSession, web

from playground.model_script import Step
from playground.server import ApiCall
from playground.telegram.server import TelegramServer
from playground.wire import Wire
from tests.journeys.stage import PATIENCE_SECONDS, Home, RunningGateway, WatchedModel, make_home, merged

OWNER = 1001  # who owns every home here


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

    def refused_calls(self, status: int) -> list[ApiCall]:
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
        home = make_home(tmp_path / name, merged(CONFIG, merged(own, config or {})), variables)
        yield Stage(telegram=telegram, model=model, home=home)


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
