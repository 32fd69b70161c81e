"""A chat that goes on for months with a model of a small window: facts are planted, work is done, nothing may be lost.

The model knows nothing but what it is given: asked to release something, it does so unless it reads that it was done.
"""

import json
import random
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from agent_core.compactor import CompactionRules
from agent_core.model import HelperModels
from agent_core.models.openai import OpenAIModel
from agent_core.models.providers import Endpoint
from agent_core.models.retries import Retries, Timeouts
from gateway.commands.catalog import make_commands
from gateway.store.db.database import Database
from gateway.terminal_chat import LocalChat, new_key
from gateway.turns.compacting import Compacting
from gateway.turns.prompts import Prompts
from hermes_config.places import Home
from hermes_config.settings import AgentSettings, Settings
from playground.model_script import ScriptedCall, Step, ask_for, say
from playground.model_server import ModelServer
from tests.agent_core.scripted import plain_tool
from tests.gateway.scene import make_runner
from tools.base import Tool, ToolContext, ToolOutput
from tools.workplaces import local_workplace, process_backends

WINDOW = 32_000
NAME = "playground"
AUXILIARY = "small"
SUMMARISING = "You shorten the older part"
_TALK = (
    "the build was slow today so we looked at logs and tests again with more care than before and found "
    "only a few that did not keep up without help "
)


@dataclass(frozen=True, slots=True)
class Planted:
    """Something the user said once, and a part of it by which it is found."""

    said: str
    known_by: str


def plant(count: int, seed: int = 7) -> list[Planted]:
    pick = random.Random(seed)
    kinds = [
        lambda n: (f"The nightly dump is in /srv/backups/{n}/dump-{n}.sql.gz", f"/srv/backups/{n}/dump-{n}.sql.gz"),
        lambda n: (f"Customer ticket is CUST-{n}-{n % 97}, please note it", f"CUST-{n}-{n % 97}"),
        lambda n: (f"The staging server number {n % 9} listens on port {n + 10_000}", f"{n + 10_000}"),
        lambda n: (f"The invoice was {n}.50 EUR in the end", f"{n}.50 EUR"),
        lambda n: (
            f"From now on never restart host-{n} without asking me",
            f"never restart host-{n} without asking me",
        ),
        lambda n: (f"Docs are at https://docs.example.org/p/{n}?v=2", f"https://docs.example.org/p/{n}?v=2"),
        lambda n: (f"Always write reports for team {n} in French", f"Always write reports for team {n} in French"),
    ]
    numbers = pick.sample(range(1_000, 9_999), count)
    return [Planted(*kinds[place % len(kinds)](n)) for place, n in enumerate(numbers)]


@dataclass
class LongChat:
    """The chat, its strict model and what was seen of it."""

    server: ModelServer
    chat: LocalChat
    released: list[str] = field(default_factory=list)
    planted: list[Planted] = field(default_factory=list)
    misses: list[list[Planted]] = field(default_factory=list)  # after each compaction
    compactions: int = 0

    async def talk(self, turns: int, facts: list[Planted], *, seed: int = 3) -> None:
        pick = random.Random(seed)
        every = max(turns // (len(facts) + 1), 1)
        waiting = list(facts)
        for turn in range(turns):
            noise = " ".join(pick.choices(_TALK.split(), k=pick.randint(20, 60)))
            if turn % 23 == 5:
                noise = f"release r{turn} now"
            elif turn % 23 == 9 and turn > 50:  # asked again, long after it was done
                noise = f"release r{turn - 4 - 23 * pick.randint(0, 1)} now"
            elif waiting and turn >= every * (len(self.planted) + 1):
                self.planted.append(waiting.pop(0))
                noise = f"{self.planted[-1].said}. {noise}"
            await self.chat.say(noise)
            await self._look()

    async def _look(self) -> None:
        count = await self.chat.db.read(lambda tx: tx.count("SELECT COUNT(*) FROM compactions"))
        if count == self.compactions:
            return
        self.compactions = count
        asked = [body for body in self.server.bodies if not is_summary_request(body)][-1]
        given = "\n".join(_texts(asked))
        self.misses.append([one for one in self.planted if one.known_by not in given])
        self.server.requests[:-1] = []  # only the last one is looked at


def is_summary_request(body: Mapping[str, Any]) -> bool:
    return SUMMARISING in str(body["messages"][0]["content"])


def _texts(body: Mapping[str, Any]) -> Iterator[str]:
    for message in body["messages"]:
        yield str(message.get("content") or "")
        yield from (call["function"]["arguments"] for call in message.get("tool_calls") or ())


def answer(body: Mapping[str, Any]) -> Step:
    """Answer as a careless but honest model: it releases what it does not read as released."""
    if is_summary_request(body):
        return say(summarise(body["messages"][-1]["content"]))
    last = body["messages"][-1]
    if last["role"] == "tool":
        found = re.search(r"released (r\d+)", str(last["content"]))
        return say(f"Done: released {found[1]}." if found else "I have read it.")
    wanted = re.search(r"release (r\d+) now\Z", str(last["content"]))
    if wanted and f"released {wanted[1]}." not in "\n".join(_texts(body)):
        return ask_for(ScriptedCall(name="release", arguments=json.dumps({"what": wanted[1]}), id=f"call_{wanted[1]}"))
    if wanted:
        return say(f"{wanted[1]} is out already.")
    return say("Understood, I will look into it and tell you what I find in the next days. " * 2)


def summarise(asked: str) -> str:
    """Write a summary as a lazy model does: the form, the releases, and none of the details."""
    done = dict.fromkeys(re.findall(r"released (r\d+)\.", asked))
    lines = {"Goal": "keep the servers running", "Done": "\n".join(f"- released {one}." for one in done) or "- nothing"}
    names = ("Goal", "Constraints", "Done", "In progress", "Decisions", "Files", "Next")
    return "\n".join(f"## {name}\n{lines.get(name, '- nothing of note')}" for name in names)


def release_tool(released: list[str]) -> Tool:
    async def run(arguments: str, context: ToolContext) -> ToolOutput:
        what = json.loads(arguments)["what"]
        released.append(what)
        return f"released {what}\n" + "step of the release finished\n" * 300

    return replace(plain_tool("release", _nothing), run=run, schema={"type": "object", "properties": {"what": {}}})


async def _nothing() -> ToolOutput:
    return ""


@asynccontextmanager
async def open_chat(
    db: Database,
    server: ModelServer,
    *,
    window: int = WINDOW,
    auxiliary_server: ModelServer | None = None,
    rules: CompactionRules | None = None,
    max_iterations: int = 5,
) -> AsyncIterator[LongChat]:
    folder = db.path.parent
    released: list[str] = []
    model = _open_model(server, NAME)
    auxiliary = _open_model(auxiliary_server, AUXILIARY) if auxiliary_server else None
    rules = rules or CompactionRules(timeout_seconds=5)
    runner = make_runner(
        db,
        model,
        tools=[release_tool(released)],
        settings=Settings(agent=AgentSettings(max_iterations=max_iterations)),
        prompts=Prompts(db=db, soul=folder / "SOUL.md", project=folder, hints={}),
        helpers=HelperModels(auxiliary=auxiliary),
        compacting=Compacting(db=db, window_of=lambda model: window, rules=rules),
    )
    chat = LocalChat(
        runner=runner,
        commands=make_commands(),
        key=new_key(),
        workplace=local_workplace(folder, home=Home(folder)),
        backends=process_backends(),
    )
    try:
        yield LongChat(server, chat, released)
    finally:
        await model.aclose()
        if auxiliary is not None:
            await auxiliary.aclose()


def _open_model(server: ModelServer, name: str) -> OpenAIModel:
    endpoint = Endpoint(provider="the playground", model=name, base_url=server.url, key=server.api_key)
    timeouts = Timeouts(connect_seconds=5, first_byte_seconds=30, idle_seconds=30, whole_seconds=30)
    return OpenAIModel(endpoint, timeouts=timeouts, retries=Retries(attempts=1))
