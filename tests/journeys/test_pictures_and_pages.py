"""An owner's chat with a real gateway that searches, reads pages, looks at pictures and makes them."""

import base64
import json
from pathlib import Path
from typing import Any

from playground.model_script import ModelAnswer, ScriptedCall, ask_for, say
from tests.gateway.media import samples
from tests.journeys.telegram_stage import OWNER, stage
from tests.tools.hostile_web import loopback_web


def call(name: str, /, **arguments: Any) -> ModelAnswer:
    return ask_for(ScriptedCall(name=name, arguments=json.dumps(arguments)))


async def test_a_search_leads_to_a_page_without_a_question(tmp_path: Path) -> None:
    async with loopback_web() as web:
        page = web.url("/tea")
        web.answers = {"/search": {"results": [{"title": "Tea", "url": page, "content": "About tea"}]}}
        config = {
            "agent": {"enabled_toolsets": ["core", "web"]},
            "web": {"searxng_url": web.url("")},
            "network": {"allowed_addresses": ["127.0.0.1"]},
        }
        async with stage(tmp_path, config=config) as on, on.gateway():
            on.person(id=OWNER)
            on.model.script(call("web_search", query="tea"), call("web_extract", urls=[page]), say("Leaves and water."))
            await on.ask(OWNER, "How is tea made?", "Leaves and water.")
            assert "says chapter 2" in on.model.newest_words()
            # A link that only the page has named asks.
            on.model.script(call("web_extract", urls=[web.url("/long")]), say("Later."))
            on.say(OWNER, "Go on.")
            await on.hear(OWNER, "/long")
            assert "/long" not in web.asked


async def test_a_blind_model_is_told_of_pictures_and_sends_one(tmp_path: Path) -> None:
    async with loopback_web() as web:
        packed = base64.b64encode(samples.png()).decode()
        web.answers = {"/v1/images/generations": {"data": [{"b64_json": packed}]}}
        config = {
            "agent": {"enabled_toolsets": ["core", "creative"]},
            "model": {"vision": "seeing"},
            "images": {"base_url": web.url("/v1")},
        }
        async with stage(tmp_path, config=config) as on, on.gateway():
            on.person(id=OWNER)
            on.model.models = ("playground", "seeing")
            on.model.script(say("A lighthouse."), say("By the sea."))
            on.people.send_media(OWNER, OWNER, "photo", samples.jpeg(640, 480), caption="where is this?")
            await on.hear(OWNER, "By the sea.")
            looked, answered = on.model.bodies
            assert (looked["model"], answered["model"]) == ("seeing", "playground")
            assert "data:image/jpeg;base64" in json.dumps(looked)
            assert "> A lighthouse." in on.model.newest_words()
            assert on.telegram.texts(OWNER) == ["By the sea."]

            on.model.script(call("image_generate", prompt="a lighthouse", name="tower"), say("Here you are."))
            on.say(OWNER, "draw one")
            await on.telegram.wait_for(lambda: bool(on.telegram.called("sendPhoto")), seconds=60)
            assert web.posted[0]["prompt"] == "a lighthouse"
