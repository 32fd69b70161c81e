"""The gateway of a playground: a real process, in a home of its own, that knows nothing of the user's setup."""

import asyncio
import os
import socket

import pytest

from playground.page.server import PortTaken
from tests.playground.page.scene import Scene, scene, until


async def test_nothing_of_the_users_own_setup_reaches_it() -> None:
    own = {
        "HERMES_MODEL": "expensive",
        "HERMES_HOME": "/home/ada/.hermes",
        "TELEGRAM_BOT_TOKEN": "1:real",
        "OPENAI_API_KEY": "sk-real",
        "AWS_SECRET_ACCESS_KEY": "real",
        "NOTIFY_SOCKET": "/run/systemd/notify",
    }
    async with scene(environment={**os.environ, **own}) as on:
        await until(lambda: (on.on.home.root / "logs" / "calls.jsonl").exists() and on.calls())
        known = on.calls()[0]["environment"]
        assert {name: value for name, value in known.items() if name in own} == {"HERMES_HOME": str(on.on.home.root)}
        written = (on.on.home.root / ".env").read_text() + (on.on.home.root / "config.yaml").read_text()
        assert "real" not in written
        assert "127.0.0.1" in written


async def test_it_is_killed_stopped_and_started_again(on: Scene) -> None:
    gateway = on.on.gateway
    await until(lambda: "about to serve" in gateway.tail())
    first = gateway.pid
    await on.post("api/gateway/kill")
    assert gateway.state == "killed"
    assert "not running" in (await on.post("api/gateway/kill", status=400))["problem"]
    await on.post("api/gateway/start")
    await until(lambda: gateway.tail().count("about to serve") == 2)
    assert gateway.pid not in (0, first)
    assert "running already" in (await on.post("api/gateway/start", status=400))["problem"]
    await on.post("api/gateway/stop")
    await until(lambda: gateway.state == "stopped")


async def test_of_two_starts_at_once_one_counts(on: Scene) -> None:
    gateway = on.on.gateway
    await on.post("api/gateway/kill")
    started = await asyncio.gather(gateway.start(), gateway.start(), return_exceptions=True)
    assert [str(one) for one in started if one is not None] == ["The gateway is running already."]
    await until(lambda: "about to serve" in gateway.tail())
    await on.post("api/gateway/stop")
    await until(lambda: gateway.state == "stopped")


async def test_one_that_ends_by_itself_is_shown_with_its_last_words(on: Scene) -> None:
    await on.post("api/gateway/kill")
    (on.on.home.root / "logs" / "die").touch()
    async with on.live() as told:
        await on.post("api/gateway/start")
        news = await told.until(lambda news: news["type"] == "gateway" and news["state"] == "died")
        if "there is no room for me" not in news["log"]:  # the file is read a moment before the end is known
            news = await told.until(lambda news: news["type"] == "gateway" and "there is no room for me" in news["log"])
    assert news["code"] == 1


async def test_everything_is_gone_when_the_playground_ends() -> None:
    async with scene() as on:
        pid, root = on.on.gateway.pid, on.on.home.root
        await until(lambda: "about to serve" in on.on.gateway.tail())
        assert root.is_dir()
        assert root.stat().st_mode & 0o077 == 0
    assert not root.parent.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_two_playgrounds_are_two_worlds() -> None:
    async with scene() as one, scene() as other:
        assert one.address != other.address
        assert one.on.home.root != other.on.home.root
        await one.post("api/phones/telegram/say", {"person": "1001", "place": "dm", "text": "hello"})
        assert len(one.telegram.messages("1001", "dm")) == 1
        assert other.telegram.messages("1001", "dm") == []
        async with one.session.get(other.address) as answer:
            assert answer.status == 401


async def test_a_port_in_use_is_told_in_a_sentence() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(PortTaken, match=f"Port {port} is in use. Choose another with --port"):
            async with scene(port=port):
                pass
