"""Answers that grow on Slack: one message that rings once, is edited, and becomes the answer."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from gateway.errors import DeliveryRejected
from gateway.messages import Address, OutboundMessage, Receipt
from gateway.platforms.base import KnownMessages
from gateway.platforms.slack.platform import SlackPlatform
from playground.slack.server import SlackServer
from tests.gateway.platforms.gate import build
from tests.gateway.platforms.slack.scene import Gate, bot_of, listening, outbound
from tests.gateway.scene import soon

NOTHING = KnownMessages(ids=frozenset(), is_all=False)


@dataclass
class Scene:
    server: SlackServer
    platform: SlackPlatform
    channel: str
    ada: str

    def asks(self, text: str = "what?") -> str:
        return str(self.server.people.send_text(self.channel, self.ada, text)["ts"])

    def draft(self, text: str = "✍️ Writing…", **fields: Any) -> OutboundMessage:
        return outbound(text, **{"chat": self.channel, "key": "d1", "notify": False, **fields})

    async def show(self, text: str = "✍️ Writing…", **fields: Any) -> Receipt:
        return await soon(self.platform.show_draft(self.draft(text, **fields)))

    async def find(self, **fields: Any) -> Receipt | None:
        return await soon(self.platform.find_draft(self.draft("…", **fields), NOTHING))

    @property
    def texts(self) -> list[str]:
        return self.server.texts(self.channel)

    def calls(self, method: str) -> list[dict[str, Any]]:
        return [call.params for call in self.server.called(method)]


@pytest.fixture
async def scene(server: SlackServer, gate: Gate, general: str, ada: str) -> AsyncIterator[Scene]:
    platform = bot_of(server)
    async with listening(platform, gate, server):
        yield Scene(server, platform, general, ada)


def test_a_draft_rings() -> None:
    platform = build("slack", "xoxb-1", "xapp-1")
    style = platform.draft_style(Address(account="slack", chat="C1"))
    assert style is not None
    assert style.rings


async def test_one_message_grows_and_becomes_the_answer(scene: Scene) -> None:
    receipt = await scene.show("💭 Thinking…")
    assert await scene.show("✍️ Writing…\n\nabc", edits=receipt.message_id) == receipt
    assert len(scene.texts) == 1
    assert "abc" in scene.texts[0]
    await soon(scene.platform.send(outbound("the answer", chat=scene.channel, edits=receipt.message_id)))
    assert scene.texts == ["the answer"]
    assert len(scene.calls("chat.postMessage")) == 1


async def test_a_draft_is_taken_away_and_gone_is_gone(scene: Scene) -> None:
    receipt = await scene.show()
    for _ in range(2):
        await soon(scene.platform.delete(scene.draft().address, receipt.message_id))
    assert scene.texts == []


@pytest.mark.parametrize("in_thread", [False, True])
async def test_what_was_left_is_found_by_its_key_and_nothing_else_is(scene: Scene, in_thread: bool) -> None:
    question = scene.asks()
    where = {"reply_to": question, "thread": question if in_thread else ""}
    await soon(scene.platform.send(outbound("an answer", chat=scene.channel, key="a1", **where)))
    assert await scene.find(**where) is None
    left = await scene.show(**where)
    await soon(scene.platform.send(outbound("another", chat=scene.channel, key="a2", **where)))
    assert await scene.find(**where) == left
    assert await scene.find(key="d2", **where) is None


async def test_a_draft_that_became_the_answer_is_not_found_any_more(scene: Scene) -> None:
    receipt = await scene.show()
    await soon(scene.platform.send(outbound("the answer", chat=scene.channel, key="a1", edits=receipt.message_id)))
    assert await scene.find() is None


async def test_no_status_outlives_the_answer(scene: Scene) -> None:
    question = scene.asks()
    address = scene.draft(thread=question).address
    await soon(scene.platform.show_typing(address))
    statuses = scene.server.world.channels[scene.channel].statuses
    assert list(statuses) == [question]
    receipt = await scene.show(thread=question)
    await soon(scene.platform.show_typing(address))  # the draft says it all
    in_place = outbound("the answer", chat=scene.channel, thread=question, edits=receipt.message_id)
    await soon(scene.platform.send(in_place))
    assert statuses == {}
    await soon(scene.platform.show_typing(address))
    assert list(statuses) == [question]


def reactions(scene: Scene, ts: str) -> list[str]:
    return [one["name"] for one in scene.server.world.channels[scene.channel].posts[ts].body.get("reactions", ())]


async def test_a_reaction_is_put_changed_and_taken_away(scene: Scene) -> None:
    question = scene.asks()
    address = scene.draft(reply_to=question).address
    seen = []
    for mark in ("seen", "seen", "failed"):
        await soon(scene.platform.react(address, mark))
        seen.append(reactions(scene, question))
    assert seen == [["eyes"], ["eyes"], ["x"]]
    other = scene.asks("and?")
    for mark in ("seen", "", ""):
        await soon(scene.platform.react(replace(address, reply_to=other), mark))  # type: ignore[arg-type]
    assert reactions(scene, other) == []


async def test_a_reaction_without_the_scope_is_refused_and_the_scope_is_named(scene: Scene) -> None:
    scene.server.world.scopes = scene.server.world.scopes - {"reactions:write"}
    with pytest.raises(DeliveryRejected, match="reactions:write"):
        await soon(scene.platform.react(scene.draft(reply_to=scene.asks()).address, "seen"))
