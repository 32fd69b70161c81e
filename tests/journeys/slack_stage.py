"""A Slack, a model server and a real gateway between them: what every Slack story is played on."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import ClientSession, web

from playground.model_script import Step
from playground.slack.people import SlackPeople
from playground.slack.server import SlackServer
from playground.wire import Wire
from tests.journeys.stage import PATIENCE_SECONDS, Home, RunningGateway, WatchedModel, make_home, merged, until

OWNER = "U0OWNER001"  # who owns every home here


@dataclass(kw_only=True)
class Stage:
    slack: SlackServer
    model: WatchedModel
    home: Home

    @property
    def people(self) -> SlackPeople:
        return self.slack.people

    @property
    def bot(self) -> str:
        """How it is mentioned."""
        return f"<@{self.slack.world.bot.id}>"

    @asynccontextmanager
    async def gateway(self) -> AsyncIterator[RunningGateway]:
        """A gateway that listens to Slack, on both of its sockets."""
        events = self.slack.events
        seen = events.last  # a socket of one that was killed may seem to be open still

        def are_open() -> bool:
            opened = [one for one in events.after(seen) if one["kind"] == "socket" and one["state"] == "open"]
            return len(opened) >= 2

        async with self.home.gateway() as running:
            await until(lambda: are_open() or not running.is_running, seconds=60)
            assert running.is_running, running.printed[-3000:]
            yield running

    def person(self, name: str = "ada", *, id: str = "") -> tuple[str, str]:  # noqa: A002 Slack's word
        """Their id, and that of their direct channel."""
        user = str(self.people.make_user(name, id=id)["id"])
        return user, str(self.people.make_dm(user)["id"])

    def channel(self, name: str, *members: str) -> str:
        return str(self.people.make_channel(name, members=members)["id"])

    def say(self, channel: str, user: str, text: str, **options: Any) -> str:
        """Gives the message's ts."""
        return str(self.people.send_text(channel, user, text, **options)["ts"])

    async def hear(self, channel: str, words: str, *, seconds: float = PATIENCE_SECONDS) -> Wire:
        try:
            return await self.slack.wait_for_text(channel, words, seconds=seconds)
        except TimeoutError:
            raise AssertionError(f"nobody said {words!r}: {self.slack.texts(channel)}") from None

    async def hear_count(self, channel: str, count: int, *, seconds: float = PATIENCE_SECONDS) -> list[str]:
        """What the bot said, once it has said so many things."""
        try:
            await self.slack.wait_for(lambda: len(self.slack.texts(channel)) >= count, seconds=seconds)
        except TimeoutError:
            raise AssertionError(f"fewer than {count}: {self.slack.texts(channel)}") from None
        return self.slack.texts(channel)

    async def ask(self, channel: str, user: str, text: str, words: str, **options: Any) -> Wire:
        self.say(channel, user, text, **options)
        return await self.hear(channel, words)

    async def until_taken(self) -> None:
        """Until everything that happened so far was taken or refused: an envelope is acked after that."""
        await self.slack.wait_for(lambda: not self.slack.sockets.unacked, seconds=PATIENCE_SECONDS)


CONFIG: Mapping[str, Any] = {
    "platforms": {"socket": {"enabled": True}, "web": {"enabled": False}},
    "access": {"messages_per_minute": 0, "owner_users": [f"slack:{OWNER}"]},
    "model": {"name": "playground", "demo_pace_ms": 0},
}


@asynccontextmanager
async def stage(
    tmp_path: Path,
    *,
    demo: bool = False,
    otherwise: Step | None = None,
    config: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    slack: SlackServer | None = None,
) -> AsyncIterator[Stage]:
    """`config` goes on top of what all stories share; `demo`: the demo model answers instead of the server's."""
    async with AsyncExitStack() as stack:
        if slack is None:
            slack = await stack.enter_async_context(SlackServer())
        model = await stack.enter_async_context(WatchedModel(otherwise=otherwise))
        own = {"model": {"name": "demo"}} if demo else {}
        variables = {
            "SLACK_BOT_TOKEN": slack.bot_token,
            "SLACK_APP_TOKEN": slack.app_token,
            "SLACK_API_URL": slack.api_url,
            "OPENAI_BASE_URL": model.url,
            "OPENAI_API_KEY": model.api_key,
            **(environment or {}),
        }
        home = make_home(tmp_path / "home", merged(CONFIG, merged(own, config or {})), variables)
        yield Stage(slack=slack, model=model, home=home)


@asynccontextmanager
async def two_bots(tmp_path: Path) -> AsyncIterator[tuple[Stage, SlackServer]]:
    """One gateway with a second bot, `work`: each lives in a workspace of its own, behind one address."""
    async with (
        SlackServer() as first,
        SlackServer(bot_token="xoxb-work", app_token="xapp-work", bot_name="work_bot") as work,
        _switchboard((first, work)) as address,
        stage(
            tmp_path,
            demo=True,
            slack=first,
            config={"platforms": {"slack": {"accounts": ["work"]}}},
            environment={
                "SLACK_API_URL": address,
                "SLACK_BOT_TOKEN_WORK": work.bot_token,
                "SLACK_APP_TOKEN_WORK": work.app_token,
            },
        ) as on,
    ):
        yield on, work


@asynccontextmanager
async def _switchboard(servers: tuple[SlackServer, ...]) -> AsyncIterator[str]:
    """Passes a call on to its own server, by its token; the sockets are at the servers' own addresses."""
    roots = {f"Bearer {token}": one.api_url for one in servers for token in (one.bot_token, one.app_token)}
    async with ClientSession() as session:

        async def pass_on(request: web.Request) -> web.Response:
            token = request.headers["Authorization"]
            headers = {"Authorization": token, "Content-Type": request.headers.get("Content-Type", "")}
            url, body = f"{roots[token]}{request.match_info['method']}", await request.read()
            async with session.post(url, data=body, headers=headers) as answer:
                return web.Response(status=answer.status, body=await answer.read(), content_type=answer.content_type)

        app = web.Application()
        app.router.add_post("/api/{method}", pass_on)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            yield f"http://127.0.0.1:{runner.addresses[0][1]}/api/"
        finally:
            await runner.cleanup()
