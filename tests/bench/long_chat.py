"""What a turn costs in a chat that goes on and on: its CPU must not grow, and its fixed part must stay small."""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

from agent_core.conversation import Message, assistant
from agent_core.events import Emit, Usage
from agent_core.prompt import Layers, build_prompt, measure_fixed_cost
from gateway.commands.catalog import make_commands
from gateway.terminal_chat import LocalChat, new_key
from gateway.turns.prompts import Prompts
from hermes_config.places import Home
from tests.bench.rows import Row, Size
from tests.bench.scratch import scratch_store
from tests.gateway.scene import make_runner
from tests.gateway.turns.long_chat import SUMMARISING, summarise
from tools.base import Tool
from tools.loading import load_builtin
from tools.toolsets import select
from tools.workplaces import local_workplace, process_backends

_TURNS: dict[Size, int] = {"full": 5_000, "quick": 1_000, "tiny": 20}
_AIM_FIXED_TOKENS = 4_000
_TEXT = "Could you look at the build of last night and tell me what broke in /srv/builds? "


class Parrot:
    """Answers at once and counts its tokens."""

    name = "parrot"

    async def reply(
        self, messages: Sequence[Message], tools: Sequence[Tool], emit: Emit, *, may_call: bool = True
    ) -> Message:
        emit(Usage(input_tokens=sum(len(message.text) for message in messages) // 4 + 100, output_tokens=20))
        if SUMMARISING in messages[0].text:
            return assistant(summarise(messages[-1].text))
        return assistant("It was the linker again, as in /srv/builds/last.log.")


def measure(size: Size, folder: Path) -> list[Row]:
    tools = select(load_builtin(), ["core"], (), has_workplace=True)
    cost = measure_fixed_cost(build_prompt(Layers(tools=tuple(tool.name for tool in tools))), tools)
    fixed = Row(what="prompt and core tools", samples=[cost.total], unit="tokens", aim=_AIM_FIXED_TOKENS)
    turns = _TURNS[size]
    spent = asyncio.run(_talk(folder, turns))
    part = max(turns // 5, 1)
    early = Row(what=f"CPU of a turn, first {2 * part:,} messages", samples=spent[:part], unit="ms")
    last = f"CPU of a turn, last of {2 * turns:,} messages"
    return [Row(what=last, samples=spent[-part:], unit="ms", floor=early), early, fixed]


async def _talk(folder: Path, turns: int) -> list[float]:
    async with scratch_store(folder / "store") as db:
        chat = LocalChat(
            runner=make_runner(db, Parrot(), prompts=Prompts(db=db, soul=folder / "SOUL.md", project=folder, hints={})),
            commands=make_commands(),
            key=new_key(),
            workplace=local_workplace(folder, home=Home(folder)),
            backends=process_backends(),
        )
        spent: list[float] = []
        for number in range(turns):
            began = time.process_time()
            await chat.say(f"{_TEXT} ({number})")
            spent.append((time.process_time() - began) * 1000)
        return spent
