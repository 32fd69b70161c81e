"""Who gets in and who gets out: strangers, codes, invites, the revoked, those who block the bot."""

from pathlib import Path

from tests.journeys.stage import code_in, until
from tests.journeys.telegram_stage import OWNER, stage


async def test_a_stranger_is_let_in_by_code_and_told_at_once_and_the_code_is_kept_nowhere(tmp_path: Path) -> None:
    async with stage(tmp_path, demo=True) as on:
        ada = on.person("Ada")
        async with on.gateway() as running:
            on.say(ada, "what is 17 * 23?")
            code = code_in((await on.hear(ada, "this code"))["text"])
            on.say(ada, "are you there?")  # and no second code for it
            assert "Ada" in await on.home.hermes("pairing", "list")

            approved = await on.home.hermes("pairing", "approve", "telegram", code.lower())
            assert f"telegram:{ada}" in approved
            await on.hear(ada, "You are in, as a member", seconds=10)

            await on.ask(ada, "todo: water the plants", "water the plants")
            texts = on.telegram.texts(ada)
            assert len(texts) == 3, texts  # the code, the welcome, the answer: nothing about what came before
            assert "391" not in "".join(texts)
            assert on.home.holds("water the plants")  # so the search does find what is there
            assert on.home.holds(code) == []
            await running.stop()
        assert on.home.holds(code) == []
        assert on.home.holds("are you there?") == []
        events = [event for (event,) in on.home.rows("SELECT event FROM trail ORDER BY id")]
        assert events.index("pairing asked") < events.index("pairing approved") < events.index("tool_finished")


async def test_a_code_that_may_not_have_arrived_is_void_and_the_next_one_counts(tmp_path: Path) -> None:
    async with stage(tmp_path, demo=True) as on:
        ada = on.person("Ada")
        async with on.gateway() as running:
            on.telegram.faults.add("cut_after", "sendMessage")  # it did arrive, but we cannot know
            on.say(ada, "hello")
            first, second = (code_in(text) for text in await on.hear_count(ada, 2))
            assert first != second
            refused = await on.home.hermes("pairing", "approve", "telegram", first, code=1)
            assert "Nobody on telegram is waiting with that code" in refused
            await on.home.hermes("pairing", "approve", "telegram", second, "--role", "owner")
            await on.hear(ada, "You are in, as an owner")
            await running.stop()
        assert on.home.holds(first) == on.home.holds(second) == []


async def test_an_invite_lets_one_friend_in_and_nobody_else(tmp_path: Path) -> None:
    async with stage(tmp_path, demo=True) as on:
        friend, other = on.person("Friend"), on.person("Other")
        async with on.gateway() as running:
            printed = await on.home.hermes("pairing", "invite", "telegram", "--role", "guest")
            code = code_in(printed)
            assert f"https://t.me/playground_bot?start={code}" in printed
            await on.ask(friend, f"/start {code}", "You are in, as a guest")
            await on.ask(friend, "what is 17 * 23?", "391")

            await on.ask(other, f"/start {code}", "I do not know you yet")
            on.say(other, code)
            on.say(other, "what is 17 * 23?")
            await on.ask(friend, "what is 2 + 2?", "= 4")
            assert len(on.telegram.texts(other)) == 1
            assert on.home.holds(code) == []
            await running.stop()
        assert on.home.holds(code) == []


async def test_a_revoked_member_is_met_with_silence_at_once(tmp_path: Path) -> None:
    async with stage(tmp_path, demo=True) as on:
        owner, ada = on.person("Owner", id=OWNER), on.person("Ada")
        async with on.gateway() as running:
            code = code_in(await on.home.hermes("pairing", "invite", "telegram"))
            await on.ask(ada, f"/start {code}", "You are in")
            await on.ask(ada, "what is 17 * 23?", "391")
            heard = on.telegram.texts(ada)

            assert "no longer" in await on.home.hermes("pairing", "revoke", "telegram", str(ada))
            on.say(ada, "what is 2 + 2?")
            on.say(ada, "/whoami")
            await on.until_taken(owner)
            await running.stop()
        assert on.telegram.texts(ada) == heard
        reasons = on.home.rows("SELECT json_extract(detail, '$.reason') FROM trail WHERE event = 'refused'")
        assert [("revoked" in reason) for (reason,) in reasons] == [True, True]


async def test_an_answer_to_somebody_who_blocked_the_bot_is_given_up_and_later_ones_work(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        ada = on.person("Ada", id=OWNER)
        async with on.gateway() as running:
            on.model.may_answer.clear()
            on.say(ada, "a hard question")
            await on.model.until_asked(1)
            on.people.block(ada)
            on.model.may_answer.set()
            await on.telegram.wait_for(lambda: on.refused_calls(403), seconds=30)
            failed = await until(
                lambda: on.home.rows("SELECT json_extract(detail, '$.problem') FROM trail WHERE event = 'failed'")
            )
            assert failed[0] == ("the user has blocked the bot",)
            await on.home.until_idle()  # nor can they be told of it

            on.people.block(ada, undo=True)
            await on.ask(ada, "an easy one", "Noted.")
            await running.stop()
        answers = on.home.rows("SELECT state FROM outbox WHERE kind = 'answer' ORDER BY id")
        assert answers == [("failed",), ("sent",)]
        assert on.telegram.texts(ada) == ["Noted."]
