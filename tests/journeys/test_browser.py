"""An owner's chat whose agent uses a browser: what is sent, what asks first, and what is left when the gateway ends."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from playground.model_script import ModelAnswer, ScriptedCall, ask_for, say
from tests.journeys.stage import PATIENCE_SECONDS
from tests.journeys.telegram_stage import OWNER, stage
from tests.programs import needs
from tests.tools.browser.site import open_site
from tests.tools.browser.user import processes_with

pytestmark = needs("chromium")
CONFIG = {
    "agent": {"enabled_toolsets": ["core", "browser"]},
    "network": {"allowed_addresses": ["127.0.0.1"]},
    "terminal": {"backend": "local"},
}


def call(name: str, /, **arguments: Any) -> ModelAnswer:
    return ask_for(ScriptedCall(name=f"browser_{name}", arguments=json.dumps(arguments)))


@pytest.mark.parametrize("way", ["stop", "kill"])
async def test_a_page_is_used_for_the_chat_and_nothing_is_left(tmp_path: Path, way: str) -> None:
    async with open_site() as site, stage(tmp_path, config=CONFIG) as on, on.gateway() as running:
        on.person(id=OWNER)
        page = site.url("/form")
        on.model.script(call("navigate", url=page), call("screenshot", send=True), say("Here it is."))
        await on.ask(OWNER, f"Show me {page}", "Here it is.")
        await on.telegram.wait_for(lambda: bool(on.telegram.called("sendPhoto")), seconds=PATIENCE_SECONDS)
        assert 'textbox "Dish" [' in json.dumps(on.model.bodies[1]).replace("\\\\", "").replace('\\"', '"')
        reference = json.dumps(on.model.bodies[1]).partition("Dish")[2].partition("[")[2].partition("]")[0]
        on.model.script(call("type", ref=reference, text="what else was said here"), say("Not done."))
        on.say(OWNER, "Go on.")
        await on.hear(OWNER, "nobody here has written both")
        assert processes_with(str(on.home.path))
        await (running.stop() if way == "stop" else running.kill())
        async with asyncio.timeout(PATIENCE_SECONDS):
            while processes_with(f"{on.home.path}/"):
                await asyncio.sleep(0.05)  # killed, it could not wait for them
    assert site.posted == []
