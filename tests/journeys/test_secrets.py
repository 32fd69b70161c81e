"""The canary in the mine: a model that tells every secret it can, and nobody who hears of one.

Slow, since a real gateway is started. What the model is given and what the store keeps of it is not changed.
"""

import base64
import json
from pathlib import Path

import pytest

from agent_core.agent import AIAgent
from agent_core.conversation import assistant, user
from agent_core.trajectory import to_sharegpt
from gateway.messages import Text
from gateway.store.web_chats import Replied, ToolUse
from gateway.web.server import render_item
from hermes_config.redaction import HIDDEN, NOTE, Redactor
from playground.model_script import ScriptedCall, ask_for, say
from tests.journeys.live_stage import Chat, chat

pytestmark = pytest.mark.slow

KNOWN = {"FAL_KEY": "fal.canary/4711+in-the-mine", "SUDO_PASSWORD": "kanarie vogel 23"}
SHAPED = "sk-ant-api03-Xy9_Zw8-Vu7tSr6qPo5nMl4kJi3hGf2eDc1bAa0"  # nobody has told us of it
LEAK = '''
from tools.registry import tool


@tool(toolset="leak")
async def leak(what: str) -> str:
    """Fails with what it was given."""
    raise RuntimeError("refused: " + what)
'''


def secrets(on: Chat) -> list[str]:
    return [*KNOWN.values(), SHAPED, on.model.api_key]


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def spelled(secret: str) -> list[str]:
    """What must not be heard. Only what is known can be known in base64."""
    in_base64 = [] if secret == SHAPED else [encoded(secret), encoded(f"key={secret}")]
    return [secret, json.dumps(secret)[1:-1], *in_base64]


def heard_by_people(on: Chat) -> str:
    return "\n".join(str(call.params) for call in on.server.calls)


def assert_unheard(on: Chat, text: str, where: str) -> None:
    found = [one for secret in secrets(on) for one in spelled(secret) if one in text]
    assert found == [], f"in {where}"


def furnish(on: Chat) -> None:
    with (on.home.path / ".env").open("a") as file:
        file.writelines(f'{name}="{value}"\n' for name, value in KNOWN.items())
    (on.home.path / "tools").mkdir()
    (on.home.path / "tools" / "leak.py").write_text(LEAK)


async def test_no_secret_is_heard_in_the_chat_the_log_or_an_export(tmp_path: Path) -> None:
    config = {"agent": {"enabled_toolsets": ["core", "leak"]}, "display": {"tool_progress_mode": "verbose"}}
    async with chat(tmp_path, "telegram dm", config=config) as on:
        furnish(on)
        async with on.gateway() as gateway:
            for number, secret in enumerate(secrets(on)):
                keys = f"{encoded(secret)}, or {encoded(f'key={secret}')}"
                may_end = on.model.hold(f"end {number}")
                on.model.script(
                    ask_for(ScriptedCall(name="leak", arguments=json.dumps({"what": secret}))),
                    say(f"Answer {number}: ", *secret, f", or {secret}, or {keys}; ", f"end {number}"),
                )
                on.ask(f"what is it, {number}?")
                await on.sees(f"Answer {number}: {HIDDEN}, or")  # the draft
                may_end.set()
                said = await on.sees(f"end {number}")
                await on.at_rest()
                assert_unheard(on, said, "the answer")
                assert (await on.sees(f"end {number}")).count(NOTE) == 1
            session = json.loads(await on.home.hermes("sessions", "list", "--json"))[0]["id"]
            shown = [
                await on.home.hermes("sessions", "show", session),
                await on.home.hermes("sessions", "show", session, "--json"),
                await on.home.hermes("sessions", "search", "answer"),
                await on.home.hermes("trace", "last"),
                await on.home.hermes("trace", "last", "--json"),
            ]
            assert HIDDEN in shown[0]
            assert_unheard(on, "\n".join(shown), "what is printed")
            assert_unheard(on, heard_by_people(on), "the bytes of the chat")
            assert_unheard(on, gateway.printed, "the log")
        # The model is told what its tools said, word by word: or it would write the mark into files.
        assert SHAPED in str(on.model.requests)
        assert on.home.rows("SELECT 1 FROM messages WHERE parts LIKE ?", f"%{SHAPED}%")
        assert not on.home.rows("SELECT 1 FROM outbox WHERE parts LIKE ?", f"%{SHAPED}%")


async def test_no_secret_is_printed_by_a_conversation_at_the_terminal(tmp_path: Path) -> None:
    async with chat(tmp_path, "telegram dm") as on:
        furnish(on)
        on.model.script(say(*(f"{secret} " for secret in secrets(on))))
        printed = await on.home.hermes("chat", "-q", "tell me")
        assert_unheard(on, printed, "the answer")
        assert printed.count(NOTE) == 1


def test_what_an_old_conversation_shows_on_the_page_is_cleaned() -> None:
    tool = ToolUse(id="1", name="leak", arguments=json.dumps({"what": SHAPED}), result=f"no {SHAPED}", error=True)
    replied = Replied(key="k", kind="answer", parts=(Text(text=SHAPED),), at_ms=1, answers=(), tools=(tool,))
    item = render_item(replied, Redactor().clean)
    assert SHAPED not in str(item)
    assert (item["text"], item["tools"][0]["result"]) == (HIDDEN, f"no {HIDDEN}")


async def test_an_agent_in_a_script_saves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAL_KEY", KNOWN["FAL_KEY"])
    async with AIAgent(model="demo", enabled_toolsets=["core"]) as agent:
        await agent.chat(f"what about {KNOWN['FAL_KEY']}?")
        assert KNOWN["FAL_KEY"] not in json.dumps(agent.trajectory())


def test_no_secret_is_in_a_trajectory() -> None:
    told = [user("what?"), assistant(" ".join(one for value in (*KNOWN.values(), SHAPED) for one in spelled(value)))]
    text = json.dumps(to_sharegpt(told, [], redactor=Redactor(KNOWN.values())))
    assert [one for value in (*KNOWN.values(), SHAPED) for one in spelled(value) if one in text] == []
    assert SHAPED not in str(to_sharegpt(told, []))
