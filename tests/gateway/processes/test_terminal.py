"""What runs in the background of the terminal, where no gateway need be: found, ended and told of all the same."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from agent_core.conversation import Message, assistant
from agent_core.provenance import read_provenance
from gateway.store import processes
from gateway.store.db.database import Database
from gateway.store.processes import AT_TERMINAL, StoredProcesses
from gateway.terminal_chat import LocalChat
from hermes_config.places import Home
from tests.agent_core.scripted import ScriptedModel, asks, call
from tests.gateway.background import make_watchers
from tests.gateway.scene import rows
from tests.gateway.test_terminal_chat import chat
from tests.tools.backends.watching import is_there, nap, until
from tools.backends import background
from tools.backends.background import BackgroundProcesses
from tools.builtin.processes import process_tools
from tools.workplaces import local_workplace


@dataclass
class Terminal:
    db: Database
    folder: Path

    def chat(self, *replies: Message) -> LocalChat:
        """A conversation of its own, as each `hermes chat` is."""
        self.model = ScriptedModel([*replies])
        place = local_workplace(self.folder, home=Home(self.folder), outputs=self.folder / "outputs")
        tools = process_tools(StoredProcesses(self.db, is_watched=False))
        return replace(chat(self.db, self.model, tools=tools), workplace=replace(place, holder=AT_TERMINAL))

    async def ended(self) -> None:
        started = await self.db.read(processes.read_at_terminal)
        await until(lambda: not any(background.is_running(one.process.handle) for one in started))


def starts(command: str, **options: object) -> Message:
    return asks(call("terminal", json.dumps({"command": command, "background": True, **options})))


@pytest.fixture
async def terminal(db: Database, tmp_path: Path) -> AsyncIterator[Terminal]:
    yield Terminal(db, tmp_path)
    for one in await db.read(processes.read_at_terminal):
        await BackgroundProcesses().kill(one.process.handle)


async def test_the_next_conversation_lists_and_ends_what_another_has_started(terminal: Terminal) -> None:
    left = nap()
    await terminal.chat(starts(f"(setsid {left} &); {left}"), assistant("started")).say("start it")
    await until(lambda: is_there(left))
    another = terminal.chat()
    assert f"`(setsid {left} &); {left}`" in await another.say("/status")
    assert await another.say("/stop") == "Nothing is running but 1 background process; /stop all ends them."
    assert await another.say("/stop all") == "Ending 1 background process."
    assert not is_there(left)
    assert "In the background" not in await another.say("/status")
    assert await rows(terminal.db, "SELECT state FROM processes") == [("ended",)]


async def test_the_agent_of_another_conversation_can_look_after_it(terminal: Terminal) -> None:
    await terminal.chat(starts("cat"), assistant("started")).say("start it")
    [(which,)] = await rows(terminal.db, "SELECT id FROM processes")
    kill = asks(call("process", json.dumps({"action": "kill", "session_id": which})))
    await terminal.chat(kill, assistant("killed")).say("kill it")
    assert '"status": "exited"' in terminal.model.asked[-1][-1].text


async def test_the_agent_hears_with_the_next_message_what_has_ended_once(terminal: Terminal) -> None:
    talk = terminal.chat(starts("echo evil words; exit 3"), assistant("started"), assistant("well"), assistant("so"))
    await talk.say("start it")
    await terminal.ended()
    await talk.say("/status")
    await talk.say("and?")
    said = terminal.model.asked[-1][-1]
    assert "ended with exit code 3" in said.text
    assert said.text.endswith("and?")
    assert "evil words" not in read_provenance([said], ()).own_words
    await talk.say("and now?")
    assert terminal.model.asked[-1][-1].text == "and now?"
    assert (await rows(terminal.db, "SELECT title FROM sessions")) == [("start it",)]


async def test_what_was_stopped_is_told_as_stopped(terminal: Terminal) -> None:
    talk = terminal.chat(starts("cat"), assistant("started"), assistant("well"))
    await talk.say("start it")
    await talk.say("/stop all")
    await talk.say("and?")
    assert "was ended by /stop all.]" in terminal.model.asked[-1][-1].text


async def test_the_agent_is_told_that_nobody_watches(terminal: Terminal) -> None:
    await terminal.chat(starts("cat", notify_on_complete=True), assistant("started")).say("start it")
    assert "Nothing watches it here" in terminal.model.asked[-1][-1].text


async def test_a_gateway_leaves_them_to_the_terminal(terminal: Terminal) -> None:
    await terminal.chat(starts("exit 3"), assistant("started")).say("start it")
    await terminal.ended()
    await make_watchers(terminal.db).look("local")
    assert await rows(terminal.db, "SELECT state FROM processes") == [("running",)]
    assert await terminal.db.read(processes.read_to_end) == []
