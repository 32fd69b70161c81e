"""Answers that grow on Discord: one silent message that is edited, known by a mark that nobody sees."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from gateway.errors import GatewayError
from gateway.messages import OutboundMessage, Receipt
from gateway.platforms.base import KnownMessages
from gateway.platforms.discord.sending import DRAFT_MARK
from tests.gateway.platforms.discord.scene import Scene, a_scene, listening
from tests.gateway.scene import soon

_SUPPRESS_NOTIFICATIONS = 1 << 12


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    async with a_scene() as made, listening(made):
        yield made


def draft(scene: Scene, text: str = "✍️ Writing…", **fields: Any) -> OutboundMessage:
    return scene.outbound(text, **{"chat": scene.channel, "notify": False, "key": "d" * 24, **fields})


async def show(scene: Scene, text: str = "✍️ Writing…", **fields: Any) -> Receipt:
    return await soon(scene.platform.show_draft(draft(scene, text, **fields)))


async def find(scene: Scene, *known: str, **fields: Any) -> Receipt | None:
    ids = KnownMessages(ids=frozenset(known), is_all=False)
    return await soon(scene.platform.find_draft(draft(scene, "…", **fields), ids))


def shown(scene: Scene) -> list[str]:
    return [text.removeprefix(DRAFT_MARK) for text in scene.server.texts(scene.channel)]


async def test_one_silent_message_grows_and_becomes_the_answer(scene: Scene) -> None:
    receipt = await show(scene, "💭 Thinking…")
    assert await show(scene, "✍️ Writing…\n\nabc", edits=receipt.message_id) == receipt
    assert shown(scene) == ["✍️ Writing…\n\nabc"]
    [sent] = scene.calls("createMessage")
    assert sent["flags"] & _SUPPRESS_NOTIFICATIONS
    await scene.send("the answer", chat=scene.channel, edits=receipt.message_id)
    assert scene.server.texts(scene.channel) == ["the answer"]  # without the mark
    assert await find(scene) is None


async def test_a_draft_is_taken_away_and_gone_is_gone(scene: Scene) -> None:
    receipt = await show(scene)
    for _ in range(2):
        await soon(scene.platform.delete(draft(scene).address, receipt.message_id))
    assert shown(scene) == []


@pytest.mark.parametrize("with_question", [True, False])
async def test_what_was_left_is_found_by_its_mark_and_no_answer_is(scene: Scene, with_question: bool) -> None:
    for number in range(3):
        await scene.send(f"an answer {number}", chat=scene.channel, key=f"answer{number}")
    question = scene.says("what?", where=scene.channel)
    left = await show(scene, reply_to=question)
    scene.says(f"{DRAFT_MARK}not ours", where=scene.channel)
    await scene.send("another answer", chat=scene.channel, key="another")
    assert await find(scene, reply_to=question if with_question else "") == left
    await soon(scene.platform.delete(draft(scene).address, left.message_id))
    assert await find(scene, reply_to=question if with_question else "") is None


async def test_the_draft_of_another_turn_is_not_taken_for_it(scene: Scene) -> None:
    others = await show(scene, key="o" * 24)
    assert await find(scene, others.message_id) is None
    left = await show(scene)
    assert await find(scene, others.message_id) == left


async def test_where_the_history_is_closed_to_us_nothing_is_found_out(scene: Scene) -> None:
    scene.server.faults.add("fail", "getMessages", status=403, extra={"code": 50001})
    with pytest.raises(GatewayError):
        await find(scene)


def reactions(scene: Scene, message_id: str) -> list[str]:
    return list(scene.server.world.channels[int(scene.channel)].posts[int(message_id)].reactions)


async def test_a_reaction_is_put_changed_and_taken_away(scene: Scene) -> None:
    question = scene.says("what?", where=scene.channel)
    address = draft(scene, reply_to=question).address
    seen = []
    for mark in ("seen", "failed"):
        await soon(scene.platform.react(address, mark))
        seen.append(reactions(scene, question))
    assert seen == [["👀"], ["❌"]]
    other = scene.says("and?", where=scene.channel)
    for mark in ("seen", ""):
        await soon(scene.platform.react(replace(address, reply_to=other), mark))  # type: ignore[arg-type]
    assert reactions(scene, other) == []


async def test_a_failure_is_marked_where_nothing_was_seen(scene: Scene) -> None:
    question = scene.says("what?", where=scene.channel)
    scene.server.faults.add("fail", "deleteReaction", status=404, extra={"code": 10014})
    await soon(scene.platform.react(draft(scene, reply_to=question).address, "failed"))
    assert reactions(scene, question) == ["❌"]
