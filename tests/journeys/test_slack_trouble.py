"""What goes wrong between us and Slack, and what the people in the chat see of it: nothing, as far as we can help."""

from collections.abc import Callable
from pathlib import Path

import pytest

from playground.model_script import say
from playground.slack.server import SlackServer
from playground.slack.sockets import SlackFault
from tests.gateway.platforms.client import connect
from tests.journeys.slack_stage import OWNER, stage
from tests.journeys.stage import until

BEA = "U0LISTED01"
QUICKLY = (0.3, 1.5, 10.0)  # how soon Slack brings again what was not acked


async def test_kill_nine_in_the_middle_of_a_turn_and_what_was_said_meanwhile_are_answered_once(tmp_path: Path) -> None:
    async with stage(tmp_path, demo=True, environment={"SLACK_ALLOWED_USERS": BEA}) as on:
        (ada, dm), (bea, beas), (stranger, strangers) = (
            on.person("ada", id=OWNER),
            on.person("bea", id=BEA),
            on.person("stranger"),
        )
        general, quiet = on.channel("general", ada, bea), on.channel("quiet", ada)
        async with on.gateway() as running:
            thread = on.say(general, ada, f"{on.bot} what is 1 + 1?")
            await on.hear(general, "= 2")
            await on.ask(dm, ada, "what is 1 + 2?", "= 3")
            await on.home.until_idle()
            on.slack.faults.add("hang_after", "chat.postMessage", chat_id=dm)
            on.say(dm, ada, "what is 1 + 3?")
            await on.hear(dm, "= 4")  # it stands there, though Slack has not said so
            await running.kill()
        await on.slack.wait_for(lambda: not on.slack.sockets.open, seconds=30)
        on.slack.sockets.subscribed = frozenset()  # what is sent now is told by the history alone
        on.say(dm, ada, "what is 1 + 4?")
        on.say(dm, ada, "what is 1 + 5?")
        on.say(general, bea, "what is 1 + 6?", thread=thread)
        on.say(general, bea, "what is 1 + 7?")  # not to us
        on.say(beas, bea, "what is 1 + 8?")  # the first that she ever sends
        on.say(quiet, ada, f"{on.bot} what is 1 + 10?")  # where nobody has ever said anything
        on.say(strangers, stranger, "what is 1 + 9?")
        async with on.gateway() as running:
            await on.hear(general, "= 7")
            await on.hear(beas, "= 9")
            await on.hear(quiet, "= 11")
            await on.hear(strangers, "this code")
            await on.hear(dm, "= 6")
            await on.home.until_idle()
            await running.stop()
        said = " ".join(on.slack.texts(dm))
        assert [said.count(f"= {number}") for number in range(3, 7)] == [1, 1, 1, 1]
        assert said.index("= 5") < said.index("= 6")
        assert [text.rpartition(" ")[2] for text in on.slack.texts(general, thread=thread)] == ["2", "7"]
        assert len(on.slack.texts(general)) == 2
        assert [len(on.slack.texts(chat)) for chat in (beas, quiet, strangers)] == [1, 1, 1]


@pytest.mark.thorough
async def test_kill_nine_while_the_model_thinks_is_answered_once_after_the_start(tmp_path: Path) -> None:
    async with stage(tmp_path, otherwise=say("The answer.")) as on:
        ada, dm = on.person("ada", id=OWNER)
        async with on.gateway() as running:
            on.model.may_answer.clear()
            on.say(dm, ada, "a hard question")
            await on.model.until_asked(1)
            await running.kill()
        on.model.may_answer.set()
        async with on.gateway() as running:
            await on.hear(dm, "The answer.")
            await on.home.until_idle()
            await running.stop()
        assert on.slack.texts(dm) == ["The answer."]
        assert on.home.rows("SELECT outcome FROM turns") == [("answered",)]
        assert on.model.refusals == []


@pytest.mark.thorough
async def test_a_long_answer_whose_line_breaks_again_and_again_arrives_once(tmp_path: Path) -> None:
    paragraphs = [f"Paragraph {number}. " + "words " * 400 for number in range(12)]
    async with stage(tmp_path, otherwise=say("\n\n".join(paragraphs))) as on:
        ada, dm = on.person("ada", id=OWNER)
        async with on.gateway() as running:
            on.slack.faults.add("cut_after", "chat.postMessage")  # taken, and we are not told
            on.slack.faults.add("garbage", "chat.postMessage", status=502)  # the same, by a proxy's page
            on.slack.faults.add("fail", "chat.postMessage", retry_after=1)
            on.say(dm, ada, "tell me all")
            await on.hear(dm, "Paragraph 11.")
            await on.home.until_idle()
            await running.stop()
        found = "\n".join(on.slack.texts(dm))
        assert [found.count(f"Paragraph {number}.") for number in range(12)] == [1] * 12
        assert {0, 502, 429} < {call.status for call in on.slack.called("chat.postMessage")}
        assert len(on.model.requests) == 1


async def test_an_envelope_that_comes_twice_or_late_or_not_at_all_is_answered_once(tmp_path: Path) -> None:
    faults: tuple[SlackFault, ...] = ("duplicate", "duplicate_new_id", "missed", "cut_socket_after", "cut_socket")
    async with stage(tmp_path, otherwise=say("The answer."), config={"access": {"allow_all_users": True}}) as on:
        on.slack.sockets.retry_seconds = QUICKLY
        ada, _ = on.person("ada", id=OWNER)
        dms = [on.person(fault) for fault in faults]
        channels = [on.channel(fault, ada) for fault in faults]
        async with on.gateway() as running:
            for fault, (user, dm), channel in zip(faults, dms, channels, strict=True):
                on.slack.faults.add(fault, "message", chat_id=dm)
                await on.ask(dm, user, "a question", "The answer.")
                on.slack.faults.add(fault, "app_mention", chat_id=channel)  # beside the message that is the same
                await on.ask(channel, ada, f"{on.bot} a question", "The answer.")
            await on.until_taken()
            await on.home.until_idle()
            await running.stop()
        assert [on.slack.texts(place) for place in (*channels, *(dm for _, dm in dms))] == [["The answer."]] * 10
        assert len(on.model.requests) == 10


async def test_lines_that_slack_renews_or_that_break_are_rebuilt_and_nobody_notices(tmp_path: Path) -> None:
    async with stage(tmp_path, demo=True) as on:
        on.slack.sockets.retry_seconds, on.slack.sockets.grace_seconds = QUICKLY, 0.2
        ada, dm = on.person("ada", id=OWNER)
        async with on.gateway() as running:
            sockets = on.slack.sockets
            troubles: list[Callable[[], None]] = [
                lambda: sockets.disconnect("warning"),
                sockets.disconnect,
                sockets.cut,
            ]
            for number, trouble in enumerate(troubles):
                trouble()
                await on.ask(dm, ada, f"what is {number} + 10?", f"= {number + 10}")
                await on.slack.wait_for_socket(2, seconds=30)
            await on.home.until_platform("connected", account="slack")
            await running.stop()
        assert len(on.slack.texts(dm)) == 3


async def test_while_slack_is_down_nothing_is_lost_and_status_says_why_it_is_not_heard(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        (ada, dm), (ben, bens) = on.person("ada", id=OWNER), on.person("ben")
        async with on.gateway() as running:
            on.model.script(say("Made while it was down."))
            on.model.may_answer.clear()
            on.say(dm, ada, "a hard question")
            await on.model.until_asked(1)
            await on.slack.pause()
            await on.home.until_platform("waiting", account="slack", words="Slack")
            on.model.may_answer.set()
            await until(lambda: on.home.rows("SELECT 1 FROM outbox WHERE kind = 'answer'"))
            on.say(bens, ben, "hello?")
            status = await on.home.hermes("status")
            line = next(line for line in status.splitlines() if line.startswith("slack "))
            assert "waiting, last contact" in line
            assert "1 undelivered" in status

            await on.slack.resume()
            await on.hear(dm, "Made while it was down.")
            await on.hear(bens, "I do not know you yet")
            assert "slack     connected" in await on.home.hermes("status")
            await running.stop()
        assert on.slack.texts(dm) == ["Made while it was down."]


async def test_wrong_tokens_stop_their_bots_alone_and_status_says_what_to_do(tmp_path: Path) -> None:
    config = {"platforms": {"slack": {"accounts": ["app", "swapped"]}}}
    right = SlackServer()
    wrong = {
        "SLACK_BOT_TOKEN": "xoxb-not-this-one",
        "SLACK_BOT_TOKEN_APP": right.bot_token,
        "SLACK_APP_TOKEN_APP": "xapp-not-this-one",
        "SLACK_BOT_TOKEN_SWAPPED": right.app_token,
        "SLACK_APP_TOKEN_SWAPPED": right.bot_token,
    }
    said = {
        "slack": "does not accept the token (invalid_auth). Correct SLACK_BOT_TOKEN ",
        "slack@app": "does not accept the token (invalid_auth). Correct SLACK_APP_TOKEN_APP ",
        "slack@swapped": "SLACK_BOT_TOKEN_SWAPPED is not a bot token",
    }
    async with stage(tmp_path, demo=True, config=config, environment=wrong) as on:
        async with on.home.gateway() as running:
            for account, words in said.items():
                await on.home.until_platform("needs operator", account=account, words=words)
            async with connect(on.home.path / "hermes.sock") as client:
                await client.say("what is 17 * 23?", message_id="1")
                assert "391" in (await client.hear())["text"]
            status = await on.home.hermes("status")
            for account, words in said.items():
                line = next(line for line in status.splitlines() if line.startswith(f"{account} "))
                assert "stopped until you fix this" in line
                assert words in line
                assert "api.slack.com/apps" in line
            await running.stop()
        assert not any(token in running.printed for token in wrong.values())
        assert len(on.slack.calls) <= 3  # a wrong token is not tried again


async def test_without_the_right_to_write_slack_stops_and_without_others_it_does_what_it_can(tmp_path: Path) -> None:
    async with stage(tmp_path, demo=True) as on:
        ada, dm = on.person("ada", id=OWNER)
        usual = on.slack.world.scopes
        on.slack.world.scopes = usual - {"chat:write"}
        async with on.home.gateway() as running:
            await on.home.until_platform("needs operator", account="slack", words="lacks the scope chat:write; add it")
            await running.stop()
        on.slack.world.scopes = usual - {"users:read", "im:read", "mpim:read", "channels:history", "files:write"}
        async with on.gateway() as running:
            await on.ask(dm, ada, "what is 17 * 23?", "391")
            await running.stop()
        assert "scopes are missing" in running.printed


@pytest.mark.slow  # a line on which nothing is heard is given up after 25 seconds
@pytest.mark.thorough
async def test_a_half_open_line_is_noticed_and_rebuilt(tmp_path: Path) -> None:
    async with stage(tmp_path, demo=True) as on:
        on.slack.sockets.ping_seconds = 600.0  # or the server would end it first
        ada, dm = on.person("ada", id=OWNER)
        async with on.gateway() as running:
            await on.ask(dm, ada, "what is 1 + 1?", "= 2")
            on.slack.half_open()
            on.say(dm, ada, "what is 2 + 2?")
            await on.home.until_platform("waiting", account="slack", seconds=90)
            await on.slack.resume()
            await on.hear(dm, "= 4", seconds=60)
            await running.stop()
        assert len(on.slack.texts(dm)) == 2
