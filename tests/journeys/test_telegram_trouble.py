"""What goes wrong between us and Telegram, and what the people in the chat see of it."""

import asyncio
from pathlib import Path

import pytest

from playground.model_script import ModelAnswer, say
from tests.gateway.platforms.client import connect
from tests.journeys.stage import until
from tests.journeys.telegram_stage import OWNER, UNHURRIED, Stage, stage

AGAIN = "Send it again"


async def _is_sent_once_however_often_one_presses(on: Stage, answer: str, notice: int) -> None:
    """Two presses at once, since after the first the notice has no button any more."""
    presses = [on.people.press(OWNER, OWNER, notice, text=AGAIN) for _ in range(2)]
    queries = [on.telegram.world.queries[press] for press in presses]
    await on.telegram.wait_for(lambda: all(query.answer is not None for query in queries), seconds=30)
    await on.hear(OWNER, answer)
    await on.hear(OWNER, "already sent again")
    await on.until_taken(OWNER)
    assert on.telegram.texts(OWNER).count(answer) == 1
    shown = next(one for one in on.telegram.show(OWNER) if one["message"]["message_id"] == notice)
    assert shown["text"] == "That answer was already sent again."
    assert shown["earlier"][-1] == "Sent again:"
    assert "buttons" not in shown


async def test_an_answer_lost_with_the_line_is_sent_again_by_a_button_once(tmp_path: Path) -> None:
    async with stage(tmp_path, otherwise=say("The answer.")) as on:
        on.person("Ada", id=OWNER)
        async with on.gateway() as running:
            on.telegram.faults.add("cut", "sendMessage")
            notice = await on.ask(OWNER, "a question", "The connection broke while sending my answer")
            assert notice["reply_markup"]["inline_keyboard"][0][0]["text"] == AGAIN
            assert "The answer." not in on.telegram.texts(OWNER)
            await _is_sent_once_however_often_one_presses(on, "The answer.", notice["message_id"])
            await running.stop()
        assert len(on.model.requests) == 1


async def test_an_answer_that_did_arrive_before_the_line_broke_is_not_sent_unasked(tmp_path: Path) -> None:
    async with stage(tmp_path, otherwise=say("The answer.")) as on:
        on.person("Ada", id=OWNER)
        async with on.gateway() as running:
            on.telegram.faults.add("cut_after", "sendMessage")
            await on.ask(OWNER, "a question", "I cannot tell whether it arrived")
            await running.stop()
        assert on.telegram.texts(OWNER).count("The answer.") == 1


async def test_a_long_answer_cut_in_the_middle_goes_on_where_it_was(tmp_path: Path) -> None:
    paragraphs = [f"Paragraph {number}. " + "words " * 150 for number in range(12)]
    async with stage(tmp_path, otherwise=say("\n\n".join(paragraphs))) as on:
        on.person("Ada", id=OWNER)
        async with on.gateway() as running:
            on.telegram.faults.add("cut", "sendMessage", skip=1)
            notice = await on.ask(OWNER, "tell me all", "The connection broke while sending my answer")
            on.people.press(OWNER, OWNER, notice["message_id"], text=AGAIN)
            await on.hear(OWNER, "Paragraph 11.")
            await running.stop()
        found = "\n".join(on.telegram.texts(OWNER))
        assert [found.count(f"Paragraph {number}.") for number in range(12)] == [1] * 12


async def test_kill_nine_while_sending_leaves_a_button_and_no_second_answer(tmp_path: Path) -> None:
    async with stage(tmp_path, otherwise=say("The answer.")) as on:
        on.person("Ada", id=OWNER)
        async with on.gateway() as running:
            on.telegram.faults.add("hang", "sendMessage")
            on.say(OWNER, "a question")
            await on.telegram.wait_for(lambda: on.telegram.called("sendMessage"), seconds=30)
            await running.kill()
        async with on.gateway() as running:
            notice = await on.hear(OWNER, "I was restarted while sending my answer")
            assert on.telegram.texts(OWNER) == [notice["text"]]
            await _is_sent_once_however_often_one_presses(on, "The answer.", notice["message_id"])
            await running.stop()
        assert len(on.model.requests) == 1


async def test_kill_nine_in_the_middle_of_a_turn_is_answered_once_after_the_start(tmp_path: Path) -> None:
    async with stage(tmp_path, otherwise=say("The answer.")) as on:
        ada, ben = on.person("Ada", id=OWNER), on.person("Ben", id=2002)
        async with on.gateway() as running:
            on.model.may_answer.clear()
            on.say(ada, "a hard question")
            await on.model.until_asked(1)
            await running.kill()
        on.say(ada, "one more, while nobody listened")
        on.say(ben, "who is there?")
        on.model.may_answer.set()
        async with on.gateway() as running:
            await on.hear_count(ada, 2)
            await on.hear(ben, "I do not know you yet")
            await on.until_taken(ada)
            await running.stop()
        assert on.telegram.texts(ada).count("The answer.") == 2
        assert [outcome for (outcome,) in on.home.rows("SELECT outcome FROM turns")] == ["answered", "answered"]
        assert on.model.refusals == []


async def test_while_telegram_is_down_nothing_is_lost_and_status_says_why_it_is_not_heard(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        ada, ben = on.person("Ada", id=OWNER), on.person("Ben", id=2002)
        async with on.gateway() as running:
            on.model.script(say("Made while it was down."))
            on.model.may_answer.clear()
            on.say(ada, "a hard question")
            await on.model.until_asked(1)
            await on.telegram.pause()
            await on.home.until_platform("waiting")
            on.model.may_answer.set()
            await until(lambda: on.home.rows("SELECT 1 FROM outbox WHERE kind = 'answer'"))
            on.say(ben, "hello?")
            status = await on.home.hermes("status")
            line = next(line for line in status.splitlines() if line.startswith("telegram "))
            assert "waiting, last contact" in line
            assert "Telegram" in line
            assert "1 undelivered" in status

            await on.telegram.resume()
            await on.hear(ada, "Made while it was down.", seconds=30)
            await on.hear(ben, "I do not know you yet")
            assert "telegram  connected" in await on.home.hermes("status")
            await running.stop()
        assert on.telegram.texts(ada) == ["Made while it was down."]


@pytest.mark.parametrize("token", ["42:not-this-one", "no token at all"])
async def test_a_wrong_token_stops_telegram_alone_and_status_says_what_to_do(tmp_path: Path, token: str) -> None:
    async with stage(tmp_path, demo=True, environment={"TELEGRAM_BOT_TOKEN": token}) as on:
        async with on.home.gateway() as running:
            await on.home.until_platform("needs operator", seconds=30)
            async with connect(on.home.path / "hermes.sock") as client:
                await client.say("what is 17 * 23?", message_id="1")
                assert "391" in (await client.hear())["text"]
            status = await on.home.hermes("status")
            line = next(line for line in status.splitlines() if line.startswith("telegram "))
            assert "stopped until you fix this" in line
            assert "TELEGRAM_BOT_TOKEN" in line
            assert "@BotFather" in line
            assert "socket    connected" in status
            await running.stop()
        assert token not in running.printed
        tried = len(on.telegram.calls)
        assert tried <= 1  # a wrong token is not tried again


@pytest.mark.thorough
async def test_two_gateways_with_one_token_answer_once_and_say_why_one_is_deaf(tmp_path: Path) -> None:
    """Telegram hands an update to whoever polls, and a poll ends the other's. So one hears, and the other says why."""
    async with stage(tmp_path, name="one", demo=True) as on:
        ada = on.person("Ada", id=OWNER)
        async with on.gateway() as running, stage(tmp_path, name="two", demo=True, telegram=on.telegram) as beside:
            await on.ask(ada, "what is 1 + 1?", "= 2")
            async with beside.home.gateway() as other:
                await on.home.until_platform("waiting", seconds=30)
                status = await on.home.hermes("status")
                assert "another program receives this bot's messages" in status
                assert "get a new token from @BotFather and set TELEGRAM_BOT_TOKEN\n" in status  # to its last word
                for number in range(5):
                    await on.ask(ada, f"what is {number} + 100?", f"= {number + 100}")
                await on.until_taken(ada)
                assert len(on.telegram.texts(ada)) == 7
                assert (running.is_running, other.is_running) == (True, True)
                await other.stop()
            await running.stop()


async def test_a_chat_whose_messages_get_no_reply_from_telegram_holds_up_no_other(tmp_path: Path) -> None:
    async with stage(tmp_path, demo=True, environment={"TELEGRAM_ALLOWED_USERS": "3001"}) as on:
        ada, ben = on.person("Ada", id=OWNER), on.person("Ben", id=3001)
        async with on.gateway():
            on.telegram.faults.add("hang", "sendMessage", chat_id=ben, count=None)
            for _ in range(5):
                on.say(ben, "/whoami")
            await on.telegram.wait_for(lambda: on.telegram.called("sendMessage"), seconds=30)
            for number in range(5):
                await on.ask(ada, f"what is {number} + 10?", f"= {number + 10}")
            assert len([call for call in on.telegram.called("sendMessage") if call.status == 0]) == 1


async def test_one_chat_in_a_burst_holds_up_no_other_and_typing_goes_first(tmp_path: Path) -> None:
    others = range(3000, 3010)
    listed = {"TELEGRAM_ALLOWED_USERS": ",".join(map(str, others))}
    config = {"platforms": {"telegram": UNHURRIED}}
    slow = ModelAnswer(text=("Noted.",), delay_seconds=0.4)  # long enough for "typing"
    async with stage(tmp_path, limits=True, config=config, environment=listed, otherwise=slow) as on:
        ada = on.person("Ada", id=OWNER)
        for other in others:
            on.person(f"Other {other}", id=other)
        async with on.gateway() as running:
            for _ in range(8):
                on.say(ada, "/whoami")
            await on.hear(ada, "You are")
            on.say(ada, "and a question")
            for other in others:
                on.say(other, "hello")
            await asyncio.gather(*(on.hear(other, "Noted.", seconds=30) for other in others))
            held_up = len(on.telegram.texts(ada))
            assert held_up < 9, "the burst was over before the others were heard: nothing was shown"
            await on.hear(ada, "Noted.", seconds=30)
            await running.stop()
        assert len(on.telegram.texts(ada)) == 9
        # We count when a message leaves and Telegram when it comes: one may come a moment too early.
        assert len(on.refused_calls(429)) <= 2
        assert on.telegram.called("sendChatAction")
        to_ada = [call.method.lower() for call in on.telegram.calls if str(call.params.get("chat_id")) == str(ada)]
        assert "sendchataction" not in to_ada[:8]  # not before the burst was answered


async def test_an_update_that_cannot_be_stored_ends_nothing_and_its_owner_is_told_once(tmp_path: Path) -> None:
    async with stage(tmp_path, otherwise=say("The answer.")) as on:
        on.person("Ada", id=OWNER)
        chat = {"id": OWNER, "type": "private", "first_name": "Ada"}
        below = {"message_id": 1, "date": 1, "chat": chat, "text": "old"}
        press = {"id": None, "from": chat | {"is_bot": False}, "message": below, "chat_instance": "1", "data": "x:y"}
        async with on.gateway() as running:
            await on.ask(OWNER, "hello", "The answer.")
            for _ in range(3):
                on.telegram.world.updates.push("callback_query", press)
            await on.ask(OWNER, "and now?", "The answer.")
            await on.hear(OWNER, "I skipped a message on telegram")
            await on.until_taken(OWNER)
            await running.stop()
        assert sum("I skipped a message" in text for text in on.telegram.texts(OWNER)) == 1
        async with on.gateway() as running:
            await on.until_taken(OWNER)
            await running.stop()
