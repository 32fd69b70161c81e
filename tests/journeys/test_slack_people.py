"""Who gets in and who gets out on Slack: strangers, codes, invites, the revoked, those whose account is gone."""

from pathlib import Path

import pytest

from tests.journeys.slack_stage import OWNER, stage
from tests.journeys.stage import code_in, until


async def test_a_stranger_is_let_in_by_code_and_told_at_once_and_the_code_is_kept_nowhere(tmp_path: Path) -> None:
    async with stage(tmp_path, demo=True) as on:
        ada, dm = on.person("ada")
        async with on.gateway() as running:
            on.say(dm, ada, "what is 17 * 23?")
            await on.hear(dm, "this code")
            code = code_in(on.slack.texts(dm)[0])
            on.say(dm, ada, "are you there?")  # and no second code for it
            assert "ada" in await on.home.hermes("pairing", "list")

            approved = await on.home.hermes("pairing", "approve", "slack", code.lower())
            assert f"slack:{ada}" in approved
            await on.hear(dm, "You are in, as a member", seconds=10)

            await on.ask(dm, ada, "todo: water the plants", "water the plants")
            texts = on.slack.texts(dm)
            assert len(texts) == 3, texts  # the code, the welcome, the answer: nothing about what came before
            assert "391" not in "".join(texts)
            assert on.home.holds("water the plants")  # so the search does find what is there
            assert on.home.holds(code) == []
            await running.stop()
        assert on.home.holds(code) == []
        assert on.home.holds("are you there?") == []
        events = [event for (event,) in on.home.rows("SELECT event FROM trail ORDER BY id")]
        assert events.index("pairing asked") < events.index("pairing approved") < events.index("tool_finished")


@pytest.mark.thorough
async def test_a_code_that_may_not_have_arrived_is_void_and_the_next_one_counts(tmp_path: Path) -> None:
    async with stage(tmp_path, demo=True) as on:
        ada, dm = on.person("ada")
        async with on.gateway() as running:
            on.slack.faults.add("cut_after", "chat.postMessage")  # it did arrive, but a code is not looked for
            on.people.command(dm, ada, "/hermes", "let me in")  # a command is a way to knock, too
            first, second = (code_in(text) for text in await on.hear_count(dm, 2))
            assert first != second
            refused = await on.home.hermes("pairing", "approve", "slack", first, code=1)
            assert "Nobody on slack is waiting with that code" in refused
            await on.home.hermes("pairing", "approve", "slack", second, "--role", "owner")
            await on.hear(dm, "You are in, as an owner")
            await running.stop()
        assert on.home.holds(first) == on.home.holds(second) == []


async def test_an_invite_lets_one_friend_in_and_nobody_else(tmp_path: Path) -> None:
    async with stage(tmp_path, demo=True) as on:
        (friend, friends), (other, others) = on.person("friend"), on.person("other")
        async with on.gateway() as running:
            code = code_in(await on.home.hermes("pairing", "invite", "slack", "--role", "guest"))
            await on.ask(friends, friend, code, "You are in, as a guest")
            await on.ask(friends, friend, "what is 17 * 23?", "391")

            await on.ask(others, other, code, "I do not know you yet")
            on.say(others, other, code)
            on.say(others, other, "what is 17 * 23?")
            await on.until_taken()
            await on.ask(friends, friend, "what is 2 + 2?", "= 4")
            assert len(on.slack.texts(others)) == 1
            assert on.home.holds(code) == []
            await running.stop()
        assert on.home.holds(code) == []


async def test_a_revoked_member_is_met_with_silence_at_once(tmp_path: Path) -> None:
    async with stage(tmp_path, demo=True) as on:
        ada, dm = on.person("ada")
        async with on.gateway() as running:
            code = code_in(await on.home.hermes("pairing", "invite", "slack"))
            await on.ask(dm, ada, code, "You are in")
            await on.ask(dm, ada, "what is 17 * 23?", "391")
            heard = on.slack.texts(dm)

            assert "no longer" in await on.home.hermes("pairing", "revoke", "slack", ada)
            on.say(dm, ada, "what is 2 + 2?")
            assert await on.people.command_and_wait(dm, ada, "/hermes", "whoami", seconds=30) == {}
            await on.until_taken()
            await running.stop()
        assert on.slack.texts(dm) == heard
        reasons = on.home.rows("SELECT json_extract(detail, '$.reason') FROM trail WHERE event = 'refused'")
        assert [("revoked" in reason) for (reason,) in reasons] == [True, True]


async def test_where_strangers_are_ignored_they_get_no_code_and_invites_still_work(tmp_path: Path) -> None:
    async with stage(tmp_path, demo=True, config={"access": {"unauthorized_dm_behavior": "ignore"}}) as on:
        ada, dm = on.person("ada")
        async with on.gateway() as running:
            on.say(dm, ada, "what is 17 * 23?")
            on.people.command(dm, ada, "/hermes", "help")
            await on.until_taken()
            await on.home.until_idle()
            assert on.slack.texts(dm) == []
            code = code_in(await on.home.hermes("pairing", "invite", "slack"))
            await on.ask(dm, ada, code, "You are in, as a member")
            await on.ask(dm, ada, "what is 2 + 2?", "= 4")
            await running.stop()


async def test_an_answer_to_an_archived_channel_is_given_up_and_later_ones_work(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        ada, _ = on.person("ada", id=OWNER)
        general = on.channel("general", ada)
        async with on.gateway() as running:
            on.model.may_answer.clear()
            on.say(general, ada, f"{on.bot} a hard question")
            await on.model.until_asked(1)
            on.people.archive(general, ada)
            on.model.may_answer.set()
            failed = await until(
                lambda: on.home.rows("SELECT json_extract(detail, '$.problem') FROM trail WHERE event = 'failed'")
            )
            assert failed[0] == ("the channel is archived",)
            await on.home.until_idle()  # nor can they be told of it

            on.people.archive(general, ada, undo=True)
            await on.ask(general, ada, f"{on.bot} an easy one", "Noted.")
            await running.stop()
        answers = on.home.rows("SELECT state FROM outbox WHERE kind = 'answer' ORDER BY id")
        assert answers == [("failed",), ("sent",)]
