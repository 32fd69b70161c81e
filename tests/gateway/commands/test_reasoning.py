"""`/reasoning` as a chat and a terminal see it, and what the model is asked for."""

import pytest

from agent_core.conversation import assistant
from agent_core.models.factory import ModelOptions, open_model
from agent_core.models.retries import Retries
from gateway.commands.catalog import make_commands
from gateway.commands.registry import CommandCall
from gateway.messages import SessionKey
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.turns.metering import MonitoredModel
from playground.model_script import ModelRefusal, say
from playground.model_server import ModelServer
from tests.agent_core.scripted import ScriptedModel
from tests.gateway.scene import inbound, make_small, running
from tests.gateway.test_terminal_chat import chat

KEY = SessionKey(platform="pigeon", kind="dm", chat="home")
GROUP = SessionKey(platform="pigeon", kind="group", chat="all")


def test_a_wrong_level_names_the_right_ones(tx: Transaction) -> None:
    reply = make_commands().run(tx, CommandCall(key=KEY, name="reasoning", arguments="extreme"))
    assert reply.text == "There is no such level. Use /reasoning none|minimal|low|medium|high|default, show or hide."


def test_before_the_first_answer_there_is_nothing_to_show(tx: Transaction) -> None:
    reply = make_commands().run(tx, CommandCall(key=KEY, name="reasoning"))
    assert reply.text == "There is no answer in this conversation yet."


def test_guests_of_a_group_do_not_read_thoughts(tx: Transaction) -> None:
    reply = make_commands().run(tx, CommandCall(key=GROUP, name="reasoning", role="guest"))
    assert reply.text.startswith("Only owners and members")


async def test_thoughts_are_shown_on_demand_or_with_each_answer(db: Database) -> None:
    model = ScriptedModel([assistant(f"answer {n}", reasoning=f"because\nof {n}") for n in range(3)])
    async with running(make_small(db, model)) as small:
        await small.say(inbound("why?", message_id="1"))
        assert await small.answer() == "answer 0"
        await small.say(inbound("/reasoning", message_id="2"))
        told = await small.answer()
        assert told.startswith("Thoughts behind the last answer:\n> because\n> of 0\n\nEffort: default.")
        await small.say(inbound("/reasoning show", message_id="3"))
        assert "come with the model's thoughts" in await small.answer()
        await small.say(inbound("and?", message_id="4"))
        assert await small.answer() == "> because\n> of 1\n\nanswer 1"
        await small.say(inbound("/reasoning hide", message_id="5"))
        await small.answer()
        await small.say(inbound("and now?", message_id="6"))
        assert await small.answer() == "answer 2"
    assert [message.text for message in model.asked[-1]] == ["why?", "answer 0", "and?", "answer 1", "and now?"]


async def test_thoughts_of_what_was_undone_are_not_shown(db: Database) -> None:
    talk = chat(db, ScriptedModel([assistant(f"answer {n}", reasoning=f"because of {n}") for n in range(2)]))
    await talk.say("why?")
    await talk.say("and?")
    await talk.say("/undo yes")
    assert "> because of 0\n" in await talk.say("/reasoning")


@pytest.mark.parametrize("knows_it", [True, False])
async def test_the_effort_reaches_the_provider_in_this_conversation_alone(db: Database, knows_it: bool) -> None:
    async with ModelServer() as server:
        model = MonitoredModel(
            open_model(
                "playground",
                base_url=server.url,
                keys={"OPENAI_API_KEY": server.api_key},
                options=ModelOptions(retries=Retries(attempts=1)),
            )
        )
        talk = chat(db, model)
        other = chat(db, model)
        if not knows_it:
            server.script(ModelRefusal(status=400, message="Unrecognized request argument: reasoning_effort"))
        server.script(*[say("fine")] * 4)
        assert (await talk.say("/reasoning high")).startswith("Reasoning effort: high.")
        assert await talk.say("hello") == "fine"
        assert await talk.say("hello") == "fine"
        assert await other.say("hello") == "fine"
        await talk.say("/reasoning default")
        assert await talk.say("hello") == "fine"
        asked = [body.get("reasoning_effort", "") for body in server.bodies]
        assert asked == (["high", "high", "", ""] if knows_it else ["high", "", "", "", ""])
        assert model.state()["answered_ms"]
        await model.aclose()
