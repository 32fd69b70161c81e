"""From a name to a model: nothing heavy until it is asked, and a reason when there is none."""

import subprocess
import sys

import pytest

from agent_core.conversation import user
from agent_core.events import ignore
from agent_core.model import ModelError
from agent_core.models.demo import DemoModel
from agent_core.models.factory import open_model
from playground.model_script import say
from playground.model_server import ModelServer


async def test_a_model_without_a_key_says_which_one_is_missing_when_asked() -> None:
    model = open_model("gpt-4o", keys={})
    with pytest.raises(ModelError, match="OPENAI_API_KEY"):
        await model.reply([user("hello")], (), ignore)


async def test_each_question_gets_an_error_of_its_own() -> None:
    model = open_model("gpt-4o", keys={})
    errors: list[ModelError] = []
    for _ in range(2):
        with pytest.raises(ModelError) as caught:
            await model.reply([user("hello")], (), ignore)
        errors.append(caught.value)
    assert errors[0] is not errors[1]
    assert str(errors[0]) == str(errors[1])


async def test_a_model_without_a_key_leaves_the_answer_to_the_next_one() -> None:
    model = open_model("gpt-4o", keys={}, fallbacks=["demo"])
    assert (await model.reply([user("what is 17 * 23?")], (), ignore)).text == "17 * 23 = 391"


async def test_the_real_client_answers() -> None:
    async with ModelServer() as server:
        server.script(say("hello yourself"))
        model = open_model("playground", base_url=server.url, keys={"OPENAI_API_KEY": server.api_key})
        reply = await model.reply([user("hello")], (), ignore)
        await model.aclose()  # type: ignore[attr-defined]
    assert reply.text == "hello yourself"


async def test_a_chain_may_end_in_the_demo_model() -> None:
    model = open_model("gpt-4o", base_url="http://127.0.0.1:9/v1", keys={}, fallbacks=["demo"])
    assert model.name == "gpt-4o"
    assert isinstance(open_model("demo", keys={}), DemoModel)


def test_the_client_is_not_loaded_before_the_first_question() -> None:
    probe = (
        "import sys\nfrom agent_core.models.factory import open_model\n"
        "open_model('gpt-4o', keys={'OPENAI_API_KEY': 'x'})\n"
        "assert not {'openai', 'httpx2', 'aiohttp'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", probe], check=True)
