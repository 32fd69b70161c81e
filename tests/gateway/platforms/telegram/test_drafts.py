"""Answers that grow on Telegram: previews in private chats, silent messages in groups, and finding what was left."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from gateway.errors import DeliveryRejected, GatewayError, PlatformUnavailable
from gateway.messages import Address, Choice, OutboundMessage, Receipt, Text
from gateway.platforms.base import KnownMessages
from gateway.platforms.rate_limit import Rate, RateLimits
from gateway.platforms.telegram.platform import TelegramPlatform
from playground.telegram.server import TelegramServer
from tests.gateway.platforms.gate import build
from tests.gateway.platforms.telegram.scene import Gate, bot_of, listening
from tests.gateway.scene import soon

ADA = 7


@dataclass
class Scene:
    server: TelegramServer
    platform: TelegramPlatform
    gate: Gate
    group: int

    @property
    def people(self) -> Any:
        return self.server.people

    def asks(self, text: str = "what?") -> int:
        """In the group; gives the message's id."""
        return int(self.people.send_text(self.group, ADA, text)["message_id"])

    async def says(self, text: str, **options: Any) -> int:
        """Something else that the bot says in the group."""
        message = replace(self.draft(text), key=text, **options)
        return int((await soon(self.platform.send(message))).message_id)

    def draft(
        self, text: str = "✍️ Writing…", *, chat: int = 0, edits: str = "", answers: int | str = ""
    ) -> OutboundMessage:
        address = Address(account="telegram", chat=str(chat or self.group), reply_to=str(answers))
        return OutboundMessage(key="k" * 24, address=address, parts=(Text(text=text),), notify=False, edits=edits)

    async def show(self, text: str = "✍️ Writing…", **fields: Any) -> Receipt:
        return await soon(self.platform.show_draft(self.draft(text, **fields)))

    async def failure(self, text: str = "✍️ Writing…", **fields: Any) -> GatewayError:
        with pytest.raises(GatewayError) as caught:
            await self.show(text, **fields)
        return caught.value

    async def find(self, answers: int, *known: int, is_all: bool = True) -> Receipt | None:
        ids = frozenset(map(str, known))
        draft = self.draft("…", answers=answers)
        return await soon(self.platform.find_draft(draft, KnownMessages(ids=ids, is_all=is_all)))

    def probed(self) -> list[int]:
        return [int(call.params["message_id"]) for call in self.server.called("editMessageReplyMarkup")]

    @property
    def texts(self) -> list[str]:
        return self.server.texts(self.group)


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    async with TelegramServer() as server:
        server.people.make_user("Ada", id=ADA)
        group = server.people.make_supergroup("Garden", members=[ADA])["id"]
        platform, gate = bot_of(server), Gate()
        async with listening(platform, gate):
            yield Scene(server, platform, gate, group)


def test_private_chats_have_previews_and_groups_have_messages() -> None:
    platform = build("telegram", "42:token")
    styles = [platform.draft_style(Address(account="telegram", chat=chat)) for chat in ("7", "-5", "-1007")]
    assert [style.fades for style in styles if style] == [True, False, False]


# In private chats.


async def test_a_preview_is_no_message_and_goes_with_the_next_one(scene: Scene) -> None:
    for text in ("💭 Thinking…", "✍️ Writing…\n\na **bold** word"):
        assert await scene.show(text, chat=ADA) == Receipt(message_id="")
    [draft] = scene.server.world.chats[ADA].drafts.values()
    assert (draft["text"], draft["entities"][0]["type"]) == ("✍️ Writing…\n\na bold word", "bold")
    assert scene.server.texts(ADA) == []
    await soon(scene.platform.send(replace(scene.draft("done", chat=ADA), notify=True)))
    assert scene.server.world.chats[ADA].drafts == {}


async def test_previews_of_two_turns_are_two(scene: Scene) -> None:
    await scene.show(chat=ADA)
    await soon(scene.platform.show_draft(replace(scene.draft(chat=ADA), key="other")))
    one, two = (call.params["draft_id"] for call in scene.server.called("sendMessageDraft"))
    assert one != two


async def test_a_preview_that_is_too_fast_rests(scene: Scene) -> None:
    scene.server.faults.add("fail", "sendMessageDraft", retry_after=30)
    problem = await scene.failure(chat=ADA)
    assert isinstance(problem, PlatformUnavailable)
    assert problem.retry_after == 30
    assert scene.platform.rate_limits.remaining(str(ADA)) == 0


# In groups.


async def test_in_a_group_one_silent_message_grows(scene: Scene) -> None:
    question = scene.asks()
    receipt = await scene.show("💭 Thinking…", answers=question)
    assert await scene.show("✍️ Writing…\n\nabc", edits=receipt.message_id, answers=question) == receipt
    assert scene.texts == ["✍️ Writing…\n\nabc"]
    [sent] = scene.server.called("sendMessage")
    assert sent.params["disable_notification"] == "true"
    assert json.loads(sent.params["reply_parameters"])["message_id"] == question


async def test_a_draft_that_somebody_deleted_does_not_come_back(scene: Scene) -> None:
    receipt = await scene.show()
    scene.people.delete(scene.group, [int(receipt.message_id)])
    assert isinstance(await scene.failure("more", edits=receipt.message_id), DeliveryRejected)
    assert scene.texts == []
    assert len(scene.server.called("sendMessage")) == 1


async def test_a_draft_does_not_become_a_file(scene: Scene) -> None:
    scene.server.faults.add("fail", "sendMessage", status=400, description="Bad Request: message is too long")
    assert isinstance(await scene.failure(), DeliveryRejected)
    assert scene.server.called("sendDocument") == []


async def test_a_group_that_moves_takes_no_draft_along(scene: Scene) -> None:
    basic = scene.people.make_group("Basic", members=[ADA])["id"]
    receipt = await scene.show(chat=basic)
    new = scene.people.upgrade(basic)
    assert isinstance(await scene.failure("more", chat=basic, edits=receipt.message_id), DeliveryRejected)
    assert scene.gate.moves[0] == (str(basic), str(new))
    with pytest.raises(PlatformUnavailable):
        await soon(scene.platform.delete(Address(account="telegram", chat=str(basic)), receipt.message_id))
    assert scene.server.texts(new) == []


# Taking away.


async def test_a_draft_is_taken_away_and_gone_is_gone(scene: Scene) -> None:
    receipt, address = await scene.show(), scene.draft().address
    for _ in range(2):
        await soon(scene.platform.delete(address, receipt.message_id))
    assert scene.texts == []


async def test_what_telegram_does_not_let_us_take_away_is_refused(scene: Scene) -> None:
    receipt = await scene.show()
    words = "Bad Request: message can't be deleted"
    scene.server.faults.add("fail", "deleteMessage", status=400, description=words)
    with pytest.raises(DeliveryRejected):
        await soon(scene.platform.delete(scene.draft().address, receipt.message_id))


# Finding what a crash has left.


async def test_the_draft_is_found_between_the_question_and_what_was_said_since(scene: Scene) -> None:
    question = scene.asks()
    scene.asks("beside it")
    left = await scene.show(answers=question)
    scene.asks("and after it")
    answer = await scene.says("the answer")
    assert await scene.find(question, answer) == left


async def test_no_answer_is_taken_for_a_draft(scene: Scene) -> None:
    before = await scene.says("an older answer")
    question = scene.asks()
    other = await scene.says("to somebody else")
    answer = await scene.says("the answer")
    assert await scene.find(question, other, answer) is None
    assert scene.probed() == []
    assert scene.texts == ["an older answer", "to somebody else", "the answer"]
    assert before < question


async def test_what_others_say_is_not_taken_for_a_draft_and_not_touched(scene: Scene) -> None:
    question = scene.asks()
    scene.asks("beside it")
    scene.people.send_text(scene.group, ADA, "and more")
    before = scene.server.show(scene.group)
    answer = await scene.says("the answer")
    assert await scene.find(question, answer) is None
    assert scene.probed() == [question + 1, question + 2]
    assert scene.server.show(scene.group)[: len(before)] == before


async def test_buttons_of_what_is_known_stay(scene: Scene) -> None:
    question = scene.asks()
    notice = await scene.says("a notice", choices=(Choice(label="Again", action="x"),))
    left = await scene.show(answers=question)
    answer = await scene.says("the answer")
    assert await scene.find(question, notice, answer) == left
    [shown] = [one for one in scene.server.show(scene.group) if one["text"] == "a notice"]
    assert shown["buttons"] == [["Again"]]


async def test_while_not_all_of_ours_are_known_nobody_is_asked(scene: Scene) -> None:
    question = scene.asks()
    await scene.show(answers=question)
    answer = await scene.says("the answer")
    for known, is_all in ([answer], False), ([], True):
        with pytest.raises(PlatformUnavailable):
            await scene.find(question, *known, is_all=is_all)
    assert scene.probed() == []


async def test_what_comes_behind_the_last_that_is_known_is_left_alone(scene: Scene) -> None:
    question = scene.asks()
    left = await scene.show(answers=question)
    known = await scene.says("known")
    await scene.says("being sent, and its id not known yet")
    assert await scene.find(question, known) == left
    assert max(scene.probed()) < known


async def test_a_long_way_is_not_searched(scene: Scene) -> None:
    question = scene.asks()
    for number in range(60):
        scene.asks(f"talk {number}")
    answer = await scene.says("the answer")
    assert await scene.find(question, answer) is None
    assert scene.probed() == []


async def test_a_message_that_cannot_be_answered_by_number_is_not_searched_from(scene: Scene) -> None:
    assert await scene.find("press-7", 5) is None  # type: ignore[arg-type]


async def test_probing_keeps_room_for_answers_and_goes_on_where_it_was() -> None:
    async with TelegramServer() as server:
        server.people.make_user("Ada", id=ADA)
        group = server.people.make_supergroup("Garden", members=[ADA])["id"]
        now = [0.0]
        rate_limits = RateLimits(per_group=Rate(count=9, seconds=60), is_group=lambda chat: True, clock=lambda: now[0])
        platform, gate = bot_of(server, rate_limits=rate_limits), Gate()
        async with listening(platform, gate):
            scene = Scene(server, platform, gate, group)
            question = scene.asks()
            for number in range(6):
                scene.asks(f"talk {number}")
            left = await scene.show(answers=question)
            answer = await scene.says("the answer")
            with pytest.raises(PlatformUnavailable):
                await scene.find(question, answer)
            assert rate_limits.remaining(str(group)) == 5
            now[0] += 60
            assert await scene.find(question, answer) == left
            assert len(scene.probed()) == len(set(scene.probed())) == 7


# Reactions.


async def test_a_reaction_is_put_changed_and_taken_away(scene: Scene) -> None:
    question = scene.asks()
    address = scene.draft(answers=question).address
    post = scene.server.world.chats[scene.group].posts[question]
    shown = []
    for mark in ("seen", "failed", ""):
        await soon(scene.platform.react(address, mark))
        shown.append([one["emoji"] for one in post.reactions[scene.server.world.bot.id]])
    assert shown == [["👀"], ["😢"], []]


async def test_a_reaction_that_is_not_allowed_is_refused(scene: Scene) -> None:
    words = "Bad Request: REACTION_INVALID"
    scene.server.faults.add("fail", "setMessageReaction", status=400, description=words)
    with pytest.raises(DeliveryRejected):
        await soon(scene.platform.react(scene.draft(answers=scene.asks()).address, "seen"))


async def test_a_group_that_rests_is_not_marked_but_a_mark_is_taken_away(scene: Scene) -> None:
    scene.platform.rate_limits.pause(str(scene.group), 60)
    address = scene.draft(answers=scene.asks()).address
    await soon(scene.platform.react(address, "seen"))
    assert scene.server.called("setMessageReaction") == []
    await soon(scene.platform.react(address, ""))
    assert len(scene.server.called("setMessageReaction")) == 1


async def test_what_is_no_message_is_not_marked(scene: Scene) -> None:
    await soon(scene.platform.react(scene.draft(answers="press-7").address, "seen"))
    assert scene.server.called("setMessageReaction") == []
