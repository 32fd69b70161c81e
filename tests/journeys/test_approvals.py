"""A tool asks a human first, in real chats: by button, by words, by command; who may answer; what a crash leaves.

Slow, since each story starts a real gateway, and some start it again.
"""

from pathlib import Path

import pytest

from playground.discord.server import DiscordServer
from playground.model_script import ModelAnswer, ScriptedCall, ask_for, say
from tests.journeys.approval_stage import (
    BUTTONS,
    STAGES,
    approval_ids,
    asked,
    buttons_data,
    discord_place,
    on_telegram,
    press_forged,
    replayed,
    revoke,
    shown_as_alive,
    stage_of,
    telegram_place,
    until_waits,
    wreck,
)
from tests.journeys.stage import until
from tests.journeys.telegram_stage import OWNER

pytestmark = pytest.mark.slow

FOLDER = "/srv/a/b"
SILENT = 1 << 12  # Discord's flag


@pytest.mark.parametrize("platform", STAGES)
async def test_once_by_a_button_runs_it_once_and_leaves_no_button(platform: str, tmp_path: Path) -> None:
    async with STAGES[platform](tmp_path) as on, on.gateway():
        question = await asked(on, wreck(FOLDER), say("All tidy."))
        for words in (f"wreck {FOLDER}", "on this machine, in ~/proj", f"it deletes {FOLDER} and everything in it"):
            assert words in question.text
        assert question.buttons == BUTTONS
        assert on.ran == []
        on.press(question.id, "Once")
        now = await on.becomes(question, "Allowed once")
        assert now.buttons == []
        await on.sees("All tidy.")
        assert on.ran == [FOLDER]
        assert [post.buttons for post in on.posts()] == [[]] * len(on.posts())


async def test_words_and_commands_decide_as_buttons_do(tmp_path: Path) -> None:
    answers = [
        ("yes", "Allowed once", True),
        ("No!", "Denied", False),
        ("/approve", "Allowed once", True),
        ("/deny", "Denied", False),
        ("yes session", "Allowed for this conversation", True),
        ("/approve session", "Allowed for this conversation", True),
        ("Yes, always.", "Always allowed", True),
    ]
    async with on_telegram(tmp_path) as on, on.gateway():
        wrecked = []
        for number, (words, outcome, is_run) in enumerate(answers):
            folder = f"/srv/a/{number}"
            question = await asked(on, wreck(folder), say(f"Done with {number}."), folder=folder)
            on.say(words)
            now = await on.becomes(question, outcome)
            assert now.buttons == []
            await on.sees(f"Done with {number}.")
            wrecked += [folder] if is_run else []
            assert on.ran == wrecked
            told = on.model.newest_words()
            assert (f"{folder} is wrecked" in told) == is_run
            assert ("A human said no" in told) != is_run
        await on.home.until_idle()
        assert on.home.rows("SELECT COUNT(*) FROM turns") == [(len(answers),)]  # none of the words began one


async def test_other_words_deny_it_and_reach_the_model_in_the_same_turn(tmp_path: Path) -> None:
    async with on_telegram(tmp_path) as on, on.gateway():
        question = await asked(on, wreck(FOLDER), say("Then I make a copy first."))
        on.say("no wait, make a copy first")
        now = await on.becomes(question, "you wrote something else")
        assert now.buttons == []
        await on.sees("Then I make a copy first.")
        assert "instead of allowing it the user has said something else" in on.model.words()
        assert "make a copy first" in on.model.newest_words()
        assert on.ran == []
        await on.home.until_idle()
        assert on.home.rows("SELECT COUNT(*) FROM turns") == [(1,)]


# Whoever may not


async def test_in_a_group_only_an_owner_decides_and_whoever_else_tries_is_told(tmp_path: Path) -> None:
    async with on_telegram(tmp_path, environment={"TELEGRAM_ALLOWED_USERS": "2002"}) as dm:
        on = stage_of(dm)
        ada, stranger = on.person("Ada", id=2002), on.person("Mallory", id=6666)
        group = int(on.people.make_supergroup("Garden", members=[OWNER, ada, stranger])["id"])
        owners, adas, strangers = (telegram_place(on, user, group) for user in (OWNER, ada, stranger))
        async with on.gateway():
            question = await asked(owners, wreck(FOLDER), say("All tidy."))
            strangers.press(question.id, "Once")
            strangers.say("yes")
            adas.press(question.id, "Always")
            await owners.sees("Only an owner can answer this request.")
            adas.press(question.id, "Deny")
            adas.say("yes")
            await until(lambda: owners.texts.count("Only an owner can answer this request.") == 3)
            assert owners.states == ["waiting"]
            assert owners.home.rows("SELECT COUNT(*) FROM approval_rules") == [(0,)]
            assert owners.home.rows("SELECT COUNT(*) FROM inbox WHERE sender_id = '6666'") == [(0,)]
            assert owners.ran == []
            owners.press(question.id, "Once")
            await owners.becomes(question, "Allowed once")
            await owners.sees("All tidy.")
            assert owners.ran == [FOLDER]
            assert len(on.model.requests) == 2  # nothing of theirs reached it


async def test_what_a_member_wants_is_decided_by_an_owner_on_another_platform(tmp_path: Path) -> None:
    async with DiscordServer() as discord:
        ada = str(discord.people.make_user("ada")["id"])
        variables = {
            "DISCORD_BOT_TOKEN": discord.token,
            "DISCORD_API_URL": discord.api_url,
            "DISCORD_ALLOWED_USERS": ada,
        }
        async with on_telegram(tmp_path, environment=variables) as owners, owners.gateway():
            await owners.home.until_platform("connected", account="discord")
            dm = str(discord.people.open_dm(ada)["id"])
            adas = discord_place(discord, owners.home, owners.model, owners.gateway, ada, dm)
            owners.model.script(say("Good evening."))
            owners.say("hello")  # that is where the owner can be found
            await owners.sees("Good evening.")

            owners.model.script(wreck(FOLDER), say("It is wrecked, Ada."))
            adas.say("tidy up")
            question = await owners.question(FOLDER)
            assert "May I do this for ada?" in question.text
            await adas.sees("This needs an owner's approval")
            assert [post.buttons for post in adas.posts()] == [[]]
            adas.say("yes")
            await adas.sees("Only an owner can answer this request.")
            adas.say("/approve")
            await until(lambda: adas.texts.count("Only an owner can answer this request.") == 2)
            assert owners.ran == []
            owners.press(question.id, "Once")
            await owners.becomes(question, "Allowed once")
            await adas.sees("It is wrecked, Ada.")
            assert owners.ran == [FOLDER]
            silent = [call for call in discord.called("createMessage") if "needs an owner" in str(call.params)]
            assert [int(call.params["flags"]) & SILENT for call in silent] == [SILENT]

            owners.model.script(wreck("/srv/a/c"), say("Then not."))
            adas.say("and the other one")
            question = await owners.question("/srv/a/c")
            adas.say("no")  # nobody needs an owner to do without
            await owners.becomes(question, "Denied")
            await adas.sees("Then not.")
            assert owners.ran == [FOLDER]


async def test_an_owner_who_talks_of_something_else_allows_nothing_by_the_way(tmp_path: Path) -> None:
    async with on_telegram(tmp_path, environment={"TELEGRAM_ALLOWED_USERS": "2002"}) as owners:
        on = stage_of(owners)
        adas = telegram_place(on, on.person("Ada", id=2002))
        async with on.gateway():
            on.model.script(say("Good evening."))
            owners.say("hello")  # that is where the owner can be found
            await owners.sees("Good evening.")
            on.model.script(wreck(FOLDER))
            adas.say("tidy up")
            await owners.question(FOLDER)
            on.model.script(say("It rains. Shall I look at tomorrow, too?"), say("Tomorrow is dry."))
            owners.say("how is the weather?")
            await owners.sees("Shall I look at tomorrow")
            owners.say("ok")
            await owners.sees("Tomorrow is dry.")
            [approval_id] = approval_ids(owners)
            named = await owners.sees("This approval request is still open")
            assert f"/approve {approval_id}: wreck {FOLDER}" in named.text
            assert (owners.states, owners.ran) == (["waiting"], [])
            on.model.script(say("It is wrecked, Ada."))
            owners.say(f"/approve {approval_id}")
            await adas.sees("It is wrecked, Ada.")
            assert owners.ran == [FOLDER]


async def test_without_an_owner_to_be_found_it_is_not_done_and_said_so(tmp_path: Path) -> None:
    async with on_telegram(tmp_path, environment={"TELEGRAM_ALLOWED_USERS": "2002"}) as dm:
        on = stage_of(dm)
        adas = telegram_place(on, on.person("Ada", id=2002))
        async with on.gateway():
            on.model.script(wreck(FOLDER), say("Nobody is there to allow it."))
            adas.say("tidy up")
            await adas.sees("Nobody is there to allow it.")
            assert "No owner can be reached" in on.model.newest_words()
            assert (adas.states, adas.ran) == ([], [])


# Time


async def test_what_nobody_decides_in_time_is_denied_and_can_be_asked_again(tmp_path: Path) -> None:
    async with on_telegram(tmp_path, config={"approvals": {"wait_minutes": 0.02}}) as on, on.gateway():
        question = await asked(on, wreck(FOLDER), say("Nobody decided."))
        now = await on.becomes(question, "No answer in time")
        assert now.buttons == ["Ask again"]
        await on.sees("Nobody decided.")
        assert on.ran == []
        on.model.script(wreck(FOLDER), say("Now it is tidy."))
        on.press(question.id, "Ask again")
        now = await on.becomes(question, "Trying again")
        assert now.buttons == []
        second = await on.question(FOLDER)
        assert second.id != question.id
        on.press(second.id, "Once")
        await on.sees("Now it is tidy.")
        assert on.ran == [FOLDER]


# Crashes and stops


async def test_killed_while_it_waits_it_is_not_asked_twice_and_runs_once_after(tmp_path: Path) -> None:
    async with on_telegram(tmp_path) as on:
        async with on.gateway() as gateway:
            question = await asked(on, wreck(FOLDER))
            await on.until_asked()
            await gateway.kill()
        for life in range(2, 6):  # more often than a turn that works may be cut
            async with on.gateway() as gateway:
                await until_waits(on, gateway, lives=life)
                await gateway.kill()
        on.model.script(say("All tidy."))
        async with on.gateway():
            assert len(on.posts()) == 1
            on.press(question.id, "Once")
            await on.becomes(question, "Allowed once")
            await on.sees("All tidy.")
            assert on.ran == [FOLDER]
            assert len(on.model.requests) == 2
            assert on.states == ["used"]


async def test_killed_right_after_the_press_it_runs_once(tmp_path: Path) -> None:
    async with on_telegram(tmp_path) as on:
        async with on.gateway() as gateway:
            question = await asked(on, wreck(FOLDER))
            slowly = ModelAnswer(text=("All tidy.",), delay_seconds=5)  # or the kill may come while it is sent
            on.model.script(slowly, say("All tidy."))
            on.press(question.id, "Once")
            await until(lambda: on.states != ["waiting"])
            await gateway.kill()
        async with on.gateway():
            await on.sees("All tidy.")
            await on.becomes(question, "Allowed once")
            assert len(on.ran) <= 1  # cut in the middle of it, its effect is unknown and it is not run again
            assert on.states == ["used"] or not on.ran  # it may have been cut right before the yes was taken


async def test_a_press_while_we_are_away_counts_when_we_are_back(tmp_path: Path) -> None:
    async with on_telegram(tmp_path) as on:
        async with on.gateway() as gateway:
            question = await asked(on, wreck(FOLDER))
            await gateway.kill()
        on.model.script(say("All tidy."))
        on.press(question.id, "Once")
        async with on.gateway():
            await on.sees("All tidy.")
            assert on.ran == [FOLDER]


async def test_a_stop_does_not_wait_for_a_human_and_says_nothing(tmp_path: Path) -> None:
    async with on_telegram(tmp_path, config={"gateway": {"drain_timeout_seconds": 600}}) as on:
        async with on.gateway() as gateway:
            question = await asked(on, wreck(FOLDER))
            await gateway.stop()  # within half a minute, not ten
        assert len(on.posts()) == 1
        on.model.script(say("All tidy."))
        async with on.gateway():
            on.press(question.id, "Once")
            await on.sees("All tidy.")
            assert on.ran == [FOLDER]
            assert len(on.posts()) == 2


# Buttons that are not what they seem


async def test_a_button_pressed_again_runs_nothing_again(tmp_path: Path) -> None:
    async with on_telegram(tmp_path) as on:
        telegram = stage_of(on).telegram
        async with on.gateway() as gateway:
            question = await asked(on, wreck(FOLDER), say("All tidy."))
            data = buttons_data(on, question)
            query = on.press(question.id, "Once")
            telegram.people.world.updates.push("callback_query", replayed(on, query))  # the same press, told twice
            press_forged(on, question, data["Once"])
            press_forged(on, question, data["Always"])
            await on.sees("All tidy.")
            press_forged(on, question, data["Once"])
            press_forged(on, question, data["Deny"])
            await stage_of(on).until_taken(OWNER)
            assert on.ran == [FOLDER]
            await gateway.kill()
        async with on.gateway():
            press_forged(on, question, data["Once"])
            await stage_of(on).until_taken(OWNER)
            await on.home.until_idle()
            assert on.ran == [FOLDER]
            assert on.states == ["used"]
            assert on.home.rows("SELECT COUNT(*) FROM approval_rules") == [(0,)]
            assert "Allowed once" in (await on.becomes(question, "Allowed")).text


async def test_a_forged_button_and_one_of_another_chat_do_nothing(tmp_path: Path) -> None:
    async with on_telegram(tmp_path) as on:
        stage = stage_of(on)
        group = int(stage.people.make_supergroup("Garden", members=[OWNER])["id"])
        elsewhere = telegram_place(stage, OWNER, group)
        async with on.gateway():
            stage.model.script(say("Hello, garden."))
            elsewhere.say("hello")
            other = await elsewhere.sees("Hello, garden.")
            question = await asked(on, wreck(FOLDER))
            data = buttons_data(on, question)
            press_forged(elsewhere, other, data["Once"])
            await elsewhere.sees("That approval request no longer exists.")
            for forged in ("approval:aaaaaa:once", "approval::once", f"{data['Once']}x", "approval:' OR 1=1:once"):
                press_forged(on, question, forged)
            await until(lambda: on.texts.count("That approval request no longer exists.") == 4)
            assert on.states == ["waiting"]
            assert on.ran == []


# Rules


async def test_a_lasting_yes_lasts_as_long_as_it_says_and_can_be_taken_back(tmp_path: Path) -> None:
    async with on_telegram(tmp_path) as on, on.gateway():

        async def again(words: str, *, is_asked: bool, press: str = "Once") -> None:
            on.model.script(wreck(FOLDER), say(words))
            before = len(on.ran)
            on.say("tidy up")
            if is_asked:
                on.press((await on.question(FOLDER)).id, press)
            await on.sees(words)
            await on.home.until_idle()
            assert len(on.ran) == before + 1

        async def begin_anew(count: int) -> None:
            on.say("/new")
            await until(lambda: len(on.home.rows("SELECT 1 FROM sessions WHERE ended_ms IS NOT NULL")) == count)

        await again("One.", is_asked=True, press="Session")
        await again("Two.", is_asked=False)
        await begin_anew(1)
        await again("Three.", is_asked=True, press="Always")
        await again("Four.", is_asked=False)
        await begin_anew(2)
        await again("Five.", is_asked=False)
        assert on.states == ["used"] * 2
        ids = [id_ for (id_,) in on.home.rows("SELECT id FROM approval_rules")]
        await revoke(on, ids)
        await again("Six.", is_asked=True)
        assert on.states == ["used"] * 3


# What waits keeps nobody waiting


async def test_a_turn_that_waits_holds_no_slot_and_shows_nothing(tmp_path: Path) -> None:
    config = {
        "gateway": {"max_turns": 1, "max_tool_runs": 1},
        "platforms": {"telegram": {"streaming": True}},
        "display": {"draft_after_seconds": 0.05},
    }
    async with on_telegram(tmp_path, config=config, environment={"TELEGRAM_ALLOWED_USERS": "2002"}) as on:
        stage = stage_of(on)
        adas = telegram_place(stage, stage.person("Ada", id=2002))
        async with on.gateway():
            question = await asked(on, wreck(FOLDER))
            await on.until_asked()
            seen = len(shown_as_alive(on))
            stage.model.script(say("Good evening, Ada."))
            adas.say("hello")
            await adas.sees("Good evening, Ada.")
            stage.model.script(wreck("/srv/a/c", decider="asker"), say("Yours is done."))
            adas.say("tidy up")
            adas.press((await adas.question("/srv/a/c")).id, "Once")
            await adas.sees("Yours is done.")
            assert on.ran == ["/srv/a/c"]
            assert len(shown_as_alive(on)) == seen  # neither typing nor a changed draft in the chat that waits
            stage.model.script(say("All tidy."))
            on.press(question.id, "Once")
            await on.sees("All tidy.")
            assert on.ran == ["/srv/a/c", FOLDER]


async def test_a_stop_by_its_user_withdraws_the_question(tmp_path: Path) -> None:
    async with on_telegram(tmp_path) as on, on.gateway():
        question = await asked(on, wreck(FOLDER))
        on.say("/stop")
        now = await on.becomes(question, "No longer needed")
        assert now.buttons == []
        await on.until_states("withdrawn")
        await on.home.until_idle()
        press_forged(on, question, f"approval:{approval_ids(on)[0]}:once")
        await stage_of(on).until_taken(OWNER)
        assert on.ran == []
        on.model.script(say("I am here."))
        on.say("are you there?")
        await on.sees("I am here.")


async def test_several_questions_at_once_are_told_apart(tmp_path: Path) -> None:
    async with on_telegram(tmp_path) as on, on.gateway():
        folders = ("/srv/a/1", "/srv/a/2", "/srv/a/3")
        on.model.script(wreck(*folders), say("Two of three."))
        on.say("tidy up")
        first, second, third = [await on.question(folder) for folder in folders]
        on.say("yes")
        which = await on.sees("Several approval requests are open")
        assert all(f"wreck {folder}" in which.text for folder in folders)
        assert on.states == ["waiting"] * 3
        on.press(second.id, "Deny")
        await on.becomes(second, "Denied")
        on.press(third.id, "Once")
        await on.becomes(third, "Allowed once")
        on.say("yes")  # only one is left that it can be about
        await on.becomes(first, "Allowed once")
        await on.sees("Two of three.")
        assert sorted(on.ran) == ["/srv/a/1", "/srv/a/3"]


@pytest.mark.parametrize(("mode", "ran"), [("deny", []), ("off", [FOLDER])])
async def test_the_operator_can_have_nobody_asked(mode: str, ran: list[str], tmp_path: Path) -> None:
    async with on_telegram(tmp_path, config={"approvals": {"mode": mode}}) as on, on.gateway():
        on.model.script(wreck(FOLDER), say("So it is."))
        on.say("tidy up")
        await on.sees("So it is.")
        assert on.ran == ran
        assert on.states == []
        assert on.texts == ["So it is."]
        assert ("This was not done" in on.model.newest_words()) == (mode == "deny")


async def test_a_tool_of_ones_own_can_be_marked_as_one_that_asks(tmp_path: Path) -> None:
    async with on_telegram(tmp_path) as on, on.gateway():
        call = ScriptedCall(name="move_card", id="call_1", arguments='{"card": "launch"}')
        on.model.script(ask_for(call), say("It is moved."))
        on.say("move the card")
        question = await on.sees("May I do this?")
        assert 'move_card {\n  "card": "launch"\n}' in question.text
        assert "Reason: it changes the production board." in question.text
        assert question.buttons == ["Once", "Deny"]
        assert on.ran == []
        on.press(question.id, "Once")
        await on.sees("It is moved.")
        assert on.ran == ["card launch"]
