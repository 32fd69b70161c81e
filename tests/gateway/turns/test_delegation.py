"""Delegated tasks: what returns, what they cost whom, and what ends and outlives them."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from agent_core.conversation import Message, assistant
from agent_core.events import Emit, TextDelta, Usage
from agent_core.model import ModelError
from gateway.clock import now_ms
from gateway.commands.catalog import make_commands
from gateway.policies.budgets import Amount, Budgets
from gateway.store import sessions, spending, trace, turns
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.store.turns import Turn
from gateway.trace import GatewayState, lines
from gateway.turns.metering import Meter
from gateway.turns.responder import Responder
from hermes_config.settings import AgentSettings, DelegationSettings, GatewaySettings, Settings
from tests.agent_core.scripted import asks, call
from tests.gateway.scene import begin, inbound, make_responder, make_small, rows, running, soon
from tools.base import Tool, ToolContext, ToolOutput
from tools.builtin.delegation import NAME
from tools.loading import load_builtin

DELEGATE = tuple(tool for tool in load_builtin() if tool.toolset == "delegate")


def tool(name: str, run: Callable[[], Awaitable[ToolOutput]], toolset: str = "test") -> Tool:
    async def ignoring(arguments: str, context: ToolContext) -> ToolOutput:
        return await run()

    return Tool(name=name, toolset=toolset, description="", schema={"type": "object"}, run=ignoring)


@dataclass
class Crew:
    """One model for all: it delegates what it is told in a chat, and as a task does what its goal says."""

    orders: dict[str, Any] = field(default_factory=dict)
    name: str = "crew"
    offered: list[set[str]] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)  # what the one who delegates is shown at the end
    begun: list[str] = field(default_factory=list)  # goals, each time a task is asked for its first step
    hanging: asyncio.Event = field(default_factory=asyncio.Event)

    async def reply(
        self, messages: Sequence[Message], tools: Sequence[Tool], emit: Emit, *, may_call: bool = True
    ) -> Message:
        emit(Usage(input_tokens=10, output_tokens=1))
        first = next(message for message in messages if message.role == "user").text
        results = [message for message in messages if message.role == "tool"]
        if first == "delegate":
            if results:
                self.shown.append(results[-1].text)
                return assistant("all done")
            return asks(call(NAME, json.dumps(self.orders)))
        return await self._work(first, results, tools, emit)

    async def _work(self, goal: str, results: Sequence[Message], tools: Sequence[Tool], emit: Emit) -> Message:
        if not results:
            self.offered.append({one.name for one in tools})
            self.begun.append(goal)
        match goal.split():
            case ["dig"]:
                return assistant(f"I found {results[-1].text}") if results else asks(call("dig", call_id="call_1"))
            case ["gorge"]:
                emit(Usage(input_tokens=100_000, output_tokens=1))
                return asks(call("dig"))
            case ["write"]:
                wanted = call("file_write", '{"path": "a.txt"}')
                return assistant("written") if results else asks(wanted)
            case ["loop"]:
                return asks(call("dig", call_id=f"call_{len(results)}"))
            case ["hang"]:
                emit(TextDelta(text="half a thought"))
                self.hanging.set()
                await asyncio.Event().wait()
            case ["broken"]:
                raise ModelError("The model is out of order.")
        return assistant(f"did {goal}")


async def dug() -> str:
    return "gold"


DIG = tool("dig", dug)


def responder(db: Database, crew: Crew, *tools: Tool, meter: Meter | None = None, **rules: Any) -> Responder:
    return make_responder(
        db,
        crew,
        tools=(*DELEGATE, *(tools or (DIG,))),
        meter=meter or Meter(),
        settings=Settings(agent=AgentSettings(max_iterations=5), delegation=DelegationSettings(**rules)),
    )


async def results_of(db: Database, crew: Crew, *tools: Tool, **rules: Any) -> list[dict[str, Any]]:
    await soon(responder(db, crew, *tools, **rules).respond(await begin(db, inbound("delegate"))))
    found: dict[str, Any] = json.loads(crew.shown[0])
    return list(found.get("results", [found]))


async def test_only_summaries_return_and_each_task_is_a_session_that_nobody_continues(db: Database) -> None:
    goals = ["dig", "write", "sing"]
    memory = tool("memory", dug, toolset="memory")
    crew = Crew({"tasks": [{"goal": goal} for goal in goals]})
    results = await results_of(db, crew, DIG, tool("file_write", dug, toolset="file"), memory)
    assert [(one["task"], one["status"], one["summary"]) for one in results] == [
        (1, "completed", "I found gold"),
        (2, "completed", "written"),
        (3, "completed", "did sing"),
    ]
    assert results[1]["files_written"] == ["a.txt"]
    assert crew.offered == [{"dig", "file_write"}] * 3  # neither delegation nor memory
    [[parent]] = await rows(db, "SELECT id FROM sessions WHERE parent_id IS NULL")
    children = await rows(db, "SELECT key, parent_id, end_reason, total_tokens FROM sessions WHERE parent_id <> ''")
    assert [row[1:] for row in children] == [
        (parent, "delegated", 22),
        (parent, "delegated", 22),
        (parent, "delegated", 11),
    ]
    key = str(inbound().key)
    assert [one.id for one in await db.read(sessions.recent)] == [parent]
    assert await db.read(lambda tx: sessions.list_ended(tx, key, limit=9)) == []
    assert await db.read(lambda tx: turns.list_in_background(tx, inbound().key)) == []
    assert await rows(db, "SELECT COUNT(*) FROM outbox") == [(1,)]
    assert await rows(db, "SELECT DISTINCT state FROM turns UNION SELECT state FROM inbox") == [("done",)]
    # The transcript of the parent has the call and its result, and nothing of what the tasks did.
    assert await rows(db, "SELECT COUNT(*) FROM messages WHERE session_id = ?", parent) == [(4,)]


async def test_whoever_asked_pays_for_the_tasks_and_a_spent_budget_ends_them(db: Database) -> None:
    crew = Crew({"tasks": [{"goal": "dig"}, {"goal": "sing"}]})
    person = (await begin_and_respond(db, crew, Budgets())).asked[0].person_id
    assert person is not None
    today = Budgets().day(now_ms())
    used = await db.read(lambda tx: spending.used(tx, today, person_id=person))
    assert used.tokens == 5 * 11  # two calls of the parent, two of the one task and one of the other
    assert await rows(db, "SELECT SUM(total_tokens) FROM sessions") == [(55,)]


async def test_a_task_that_has_spent_the_budget_ends_there_and_so_does_the_turn(db: Database) -> None:
    crew = Crew({"goal": "gorge"})
    await begin_and_respond(db, crew, Budgets(limits={"user": Amount(tokens=50_000)}))
    [[result, outcome]] = await rows(db, "SELECT result, t.outcome FROM delegations d JOIN turns t ON t.id = d.turn_id")
    assert (json.loads(result)["status"], outcome) == ("partial", "given_up")
    assert "budget" in json.loads(result)["problem"]
    [[said]] = await rows(db, "SELECT parts FROM outbox WHERE kind = 'answer'")
    assert "budget" in said


async def begin_and_respond(db: Database, crew: Crew, budgets: Budgets) -> Turn:
    turn = await begin(db, inbound("delegate"))
    await soon(responder(db, crew, meter=Meter(budgets=budgets)).respond(turn))
    return turn


async def test_a_failing_task_and_one_that_never_ends_spoil_nothing_for_the_others(db: Database) -> None:
    crew = Crew({"tasks": [{"goal": goal} for goal in ("broken", "loop", "sing", "dig")]})
    broken, loop, *good = await results_of(db, crew, max_iterations=3)
    assert (broken["status"], broken["problem"]) == ("failed", "The model is out of order.")
    assert (loop["status"], loop["tools_used"]) == ("partial", 3)
    assert loop["problem"] == "It used up its 3 steps."
    assert [one["status"] for one in good] == ["completed", "completed"]
    assert await rows(db, "SELECT outcome FROM turns WHERE id IN (SELECT turn_id FROM delegations) ORDER BY rowid") == [
        ("failed",),
        ("given_up",),
        ("answered",),
        ("answered",),
    ]


async def test_a_task_without_progress_is_ended_with_what_it_had(db: Database) -> None:
    [result] = await results_of(db, Crew({"goal": "hang"}), idle_timeout_seconds=1.0)
    assert result["status"] == "partial"
    assert result["problem"].startswith("It made no progress for 1 seconds")
    assert await rows(db, "SELECT outcome FROM turns ORDER BY rowid") == [("answered",), ("given_up",)]


async def test_what_was_begun_is_not_done_twice_and_what_is_done_stays_done_after_a_crash(db: Database) -> None:
    runs: list[str] = []
    is_third, never = asyncio.Event(), asyncio.Event()

    async def slow_dig() -> str:
        runs.append("dig")
        if len(runs) == 3:
            is_third.set()
        if not is_restarted:
            await never.wait()
        return "gold"

    is_restarted = False
    goals = ("sing", "dig", "dig", "dig", "dig")
    crew = Crew({"tasks": [{"goal": goal} for goal in goals]})
    first = asyncio.create_task(
        responder(db, crew, tool("dig", slow_dig)).respond(await begin(db, inbound("delegate")))
    )
    await soon(is_third.wait())
    first.cancel()  # and nothing more is stored, as when the process is killed
    await asyncio.gather(first, return_exceptions=True)
    assert await rows(db, "SELECT COUNT(*) FROM delegations WHERE result <> ''") == [(1,)]

    is_restarted = True
    [turn] = await db.write(turns.resume_all)  # the tasks come with the call that waits for them
    crew.begun.clear()
    await soon(responder(db, crew, tool("dig", slow_dig)).respond(turn))
    assert (len(runs), crew.begun) == (4, ["dig"])  # three are not run again; the song is not sung again
    results = json.loads(crew.shown[0])["results"]
    assert [(one["task"], one["status"]) for one in results] == [(number, "completed") for number in range(1, 6)]
    assert [("interrupted by a restart" in one["summary"]) for one in results] == [False, True, True, True, False]
    assert await rows(db, "SELECT COUNT(*), SUM(is_error) FROM messages WHERE tool_name = ?", NAME) == [(1, 0)]
    assert await rows(db, "SELECT SUM(total_tokens) FROM sessions") == [(11 * (2 + 1 + 4 * 2),)]
    assert await rows(db, "SELECT COUNT(*) FROM outbox WHERE kind = 'answer'") == [(1,)]


async def test_stop_reaches_the_tasks_at_work_and_those_that_wait(db: Database) -> None:
    crew = Crew({"tasks": [{"goal": "hang"}] * 4})
    async with running(make_small(db, crew, tools=(*DELEGATE, DIG), commands=make_commands())) as small:
        await small.say(inbound("delegate"))
        await soon(crew.hanging.wait())
        await small.say(replace(inbound("/status", message_id="2"), kind="command"))
        status = await small.answer()
        assert [line[:14] for line in status.splitlines() if "task" in line] == [
            f"- task {n}: hang" for n in range(1, 5)
        ]
        await small.say(replace(inbound("/stop", message_id="3"), kind="command"))
        assert await small.answer() == "Stopped."
        await soon(until_at_rest(db))
    assert await rows(db, "SELECT DISTINCT outcome FROM turns") == [("stopped",)]
    assert await rows(db, "SELECT COUNT(*) FROM delegations WHERE result = ''") == [(0,)]
    assert len(crew.begun) <= 3


async def until_at_rest(db: Database) -> None:
    while await db.read(turns.count_running):
        await asyncio.sleep(0.01)


async def test_one_slot_for_turns_and_one_for_tools_are_enough(db: Database) -> None:
    crew = Crew({"tasks": [{"goal": "dig"}] * 5})
    small = make_small(db, crew, tools=(*DELEGATE, DIG), max_turns=1)
    settings = Settings(gateway=GatewaySettings(max_tool_runs_per_turn=1))
    small.lanes._worker = make_responder(  # what is delegated needs no slots of its own
        db, crew, tools=(*DELEGATE, DIG), settings=settings, tool_slots=asyncio.Semaphore(1)
    )
    async with running(small):
        await small.say(inbound("delegate"))
        await small.say(inbound("delegate", chat="other", message_id="2"))
        assert [await small.answer(), await small.answer()] == ["all done", "all done"]


async def test_a_call_of_a_task_is_judged_and_asked_about_as_one_of_its_parent(db: Database) -> None:
    seen: list[ToolContext] = []

    async def look(arguments: str, context: ToolContext) -> str:
        seen.append(context)
        return "seen"

    looking = replace(DIG, run=look)
    web = replace(tool("web_extract", dug), brings="web")

    class Webbed(Crew):
        """Reads a page before it delegates."""

        async def reply(self, messages: Sequence[Message], *rest: Any, **more: Any) -> Message:
            if messages[-1].text == "delegate":
                return asks(call("web_extract"))
            if messages[-1].tool_name == "web_extract":
                return asks(call(NAME, json.dumps(self.orders)))
            return await super().reply(messages, *rest, **more)

    await results_of(db, Webbed({"goal": "dig"}), looking, web)
    heard = seen[0].heard()
    assert heard.own_words == "delegate"
    assert ("web", "gold") in [(one.origin, one.text) for one in heard.outside]
    [[child]] = await rows(db, "SELECT session_id FROM delegations")
    assert (seen[0].task_id, seen[0].delegate) == (child, None)


async def test_the_trail_leads_from_the_message_to_its_tasks_and_back(db: Database) -> None:
    await results_of(db, Crew({"goal": "dig"}))

    def read(tx: Transaction) -> tuple[list[str], list[str]]:
        newest = trace.newest(tx)
        assert newest is not None
        found = lines(trace.read(tx, newest), now_ms(), GatewayState())
        [told] = [line for line in found if "was delegated" in line]
        [child] = trace.find(tx, told.rpartition(" ")[2].rstrip(")"))
        return found, lines(trace.read(tx, child), now_ms(), GatewayState())

    parent, task = await db.read(read)
    assert any("task 1 ended: answered (20 tokens in, 2 out)" in line for line in parent)
    assert task[0] == "Done: the summary went to the turn of inbox:1."
    assert "task 1 that the turn of inbox:1 has delegated" in task
    assert any("dig finished" in line for line in task)


@pytest.mark.parametrize(
    ("orders", "error"),
    [
        ({}, "`goal` is required: say what to achieve and what to report back."),
        ({"goal": "  "}, "`goal` is required: say what to achieve and what to report back."),
        ({"goal": "dig", "tasks": [{"goal": "dig"}]}, "Pass either `goal`"),
        ({"tasks": [{"goal": "dig"}, {"goal": ""}]}, "Task 2 has an empty `goal`"),
        ({"tasks": [{"goal": "dig"}] * 21}, "These are 21 tasks; at most 20 can be given at once."),
        ({"goal": "dig", "toolsets": ["wbe"]}, "There is no toolset named 'wbe'. You can pass on: test."),
        ({"goal": "dig", "toolsets": ["web"]}, "The toolset 'web' is not switched on in this conversation."),
        ({"goal": "dig", "toolsets": ["delegate"]}, "The toolset 'delegate' cannot be used in a delegated task."),
        ({"tasks": [{"gaol": "dig"}]}, "Invalid arguments: 'tasks.0.goal' is missing"),
    ],
)
async def test_orders_that_cannot_be_carried_out_are_errors_the_model_can_act_on(
    db: Database, orders: dict[str, Any], error: str
) -> None:
    [answer] = await results_of(db, Crew(orders))
    assert answer["error"].startswith(error)
    assert await rows(db, "SELECT COUNT(*) FROM delegations") == [(0,)]
