"""Who gets in and who gets out on Discord: strangers, codes, invites, the revoked, those who take no messages."""

from pathlib import Path

from tests.journeys.discord_stage import stage
from tests.journeys.stage import code_in, until


async def test_a_stranger_is_let_in_by_code_and_told_at_once_and_the_code_is_kept_nowhere(tmp_path: Path) -> None:
    async with stage(tmp_path, demo=True) as on:
        ada = on.person("ada")
        dm = on.dm(ada)
        async with on.gateway() as running:
            on.say(ada, "what is 17 * 23?")
            code = code_in((await on.hear(dm, "this code"))["content"])
            on.say(ada, "are you there?")  # and no second code for it
            assert "ada" in await on.home.hermes("pairing", "list")

            approved = await on.home.hermes("pairing", "approve", "discord", code.lower())
            assert f"discord:{ada}" in approved
            await on.hear(dm, "You are in, as a member")

            await on.ask(ada, "todo: water the plants", "water the plants")
            texts = on.discord.texts(dm)
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
        ada = on.person("ada")
        dm = on.dm(ada)
        async with on.gateway() as running:
            on.discord.faults.add("cut_after", "createMessage")  # it did arrive, but we cannot know
            on.say(ada, "hello")
            first, second = (code_in(text) for text in await on.hear_count(dm, 2))
            assert first != second
            refused = await on.home.hermes("pairing", "approve", "discord", first, code=1)
            assert "Nobody on discord is waiting with that code" in refused
            await on.home.hermes("pairing", "approve", "discord", second, "--role", "owner")
            await on.hear(dm, "You are in, as an owner")
            await running.stop()
        assert on.home.holds(first) == on.home.holds(second) == []


async def test_an_invite_lets_one_friend_in_and_nobody_else(tmp_path: Path) -> None:
    async with stage(tmp_path, demo=True) as on:
        friend, other = on.person("friend"), on.person("other")
        async with on.gateway() as running:
            code = code_in(await on.home.hermes("pairing", "invite", "discord", "--role", "guest"))
            await on.ask(friend, code, "You are in, as a guest")
            await on.ask(friend, "what is 17 * 23?", "391")

            await on.ask(other, code, "I do not know you yet")
            on.say(other, "what is 17 * 23?")
            await on.until_taken(on.dm(other))
            assert len(on.discord.texts(on.dm(other))) == 1
            assert on.home.holds(code) == []
            await running.stop()
        assert on.home.holds(code) == []


async def test_strangers_hear_nothing_where_the_operator_wants_them_ignored(tmp_path: Path) -> None:
    async with stage(tmp_path, demo=True, config={"access": {"unauthorized_dm_behavior": "ignore"}}) as on:
        stranger, friend = on.person("stranger"), on.person("friend")
        async with on.gateway() as running:
            on.say(stranger, "hello?")
            await on.command(stranger, "help")
            code = code_in(await on.home.hermes("pairing", "invite", "discord"))
            await on.ask(friend, code, "You are in")  # an invite is the operator's own wish
            await on.until_taken(on.dm(stranger))
            await on.home.until_idle()
            await running.stop()
        assert on.discord.texts(on.dm(stranger)) == []
        assert on.home.rows("SELECT 1 FROM trail WHERE event = 'pairing asked'") == []


async def test_a_revoked_member_is_met_with_silence_at_once(tmp_path: Path) -> None:
    async with stage(tmp_path, demo=True) as on:
        ada = on.person("ada")
        dm = on.dm(ada)
        async with on.gateway() as running:
            code = code_in(await on.home.hermes("pairing", "invite", "discord"))
            await on.ask(ada, code, "You are in")
            await on.ask(ada, "what is 17 * 23?", "391")
            heard = on.discord.texts(dm)

            assert "no longer" in await on.home.hermes("pairing", "revoke", "discord", ada)
            on.say(ada, "what is 2 + 2?")
            await on.command(ada, "whoami")
            await on.until_taken(dm)
            await running.stop()
        assert on.discord.texts(dm) == heard
        reasons = on.home.rows("SELECT json_extract(detail, '$.reason') FROM trail WHERE event = 'refused'")
        assert [("revoked" in reason) for (reason,) in reasons] == [True, True, True]


async def test_an_answer_to_somebody_who_takes_no_direct_messages_is_given_up_and_later_ones_work(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path) as on:
        dm = on.dm(on.owner)
        async with on.gateway() as running:
            on.people.close_dms(on.owner)  # they may still write to us
            on.say(on.owner, "a hard question")
            failed = await until(
                lambda: on.home.rows("SELECT json_extract(detail, '$.problem') FROM trail WHERE event = 'failed'")
            )
            assert failed[0] == ("the user accepts no direct messages from the bot",)
            await on.home.until_idle()  # nor can they be told of it

            on.people.close_dms(on.owner, undo=True)
            await on.ask(on.owner, "an easy one", "Noted.")
            await running.stop()
        answers = on.home.rows("SELECT state FROM outbox WHERE kind = 'answer' ORDER BY id")
        assert answers == [("failed",), ("sent",)]
        assert on.discord.texts(dm) == ["Noted."]
