import json
from typing import Any

import pytest

from agent_core.conversation import ListJournal, Message, ToolCall, assistant, tool_result, user
from agent_core.events import Event, TextDelta, Usage, ignore
from agent_core.history import SUMMARY_REQUEST, interrupted_by_restart, stopped_by_user
from agent_core.models.demo import DemoModel
from agent_core.turn import run_turn
from tests.agent_core.scripted import CONTEXT, answering, raising
from tools.base import Tool, ToolFailed
from tools.builtin.todo import TodosInMemory, todo_tool
from tools.loading import load_builtin

IN_BACKGROUND = {"background": True, "notify_on_complete": True}
ROW = {"session_id": "proc_1", "command": "make", "seconds": 7}


def fresh_tools() -> list[Tool]:
    [clock] = [tool for tool in load_builtin() if tool.name == "clock"]
    return [clock, todo_tool(TodosInMemory())]


async def said(*texts: str, tools: list[Tool] | None = None) -> str:
    """What a chat would show for these messages sent together."""
    outcome = await run_turn(
        model=DemoModel(),
        tools=fresh_tools() if tools is None else tools,
        messages=[user(text) for text in texts],
        journal=ListJournal(),
        context=CONTEXT,
    )
    return outcome.final.text


async def first_reply(*messages: Message, tools: list[Tool] | None = None) -> Message:
    return await DemoModel().reply(messages, fresh_tools() if tools is None else tools, ignore)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("hello", "Hello! I am the demo model"),
        ("Hi Hermes!", "Hello!"),
        ("Felix: hello", "Hello!"),
        ("[Felix] good morning", "Hello!"),
        ("@hermes hey", "Hello!"),
        ("what can you do?", "demo model"),
        ("thanks a lot", "welcome"),
        ("what is 17 * 23?", "17 * 23 = 391"),
        ("Felix: what is 17 * 23?", "391"),
        ("Felix: @hermes_bot what is 17 * 23?", "391"),
        ("[This came while you were working.]\nFelix:\n@hermes_bot what is 17 * 23?", "391"),
        ("1/3", "≈ 0.3333333333"),
        ("what is 1/0?", "Dividing by zero"),
        ("send me the file notes.txt", "Here it is.\nMEDIA:notes.txt"),
        ("Please send me a picture `/srv/a b.png`", "MEDIA:/srv/a b.png"),
        ("send me the files a.txt, b.txt and c.txt", "Here they are.\nMEDIA:a.txt\nMEDIA:b.txt\nMEDIA:c.txt"),
        ("send me a picture", "Which one?"),
        ("write me a poem", "hermes config set model.name"),
        ("write me a poem", "demo"),
        ("", "demo"),
        ("run ls", "I need the tool terminal for that, and it is not switched on"),
        ("remember that I like tea", "I need the tool memory for that, and it is not switched on"),
        ("every 5 minutes say hi", "I need the tool cronjob for that, and it is not switched on"),
        ("say good morning", "good morning"),
        ("Remind me to call Ada", "Reminder: call Ada"),
        ("use browser {}", "there is no tool browser. There is clock, todo."),
        ("use your imagination", "beyond me"),
        ("todo: " + "?" * 100_000 + "x", "beyond me"),
        ("what time is it in Europe/Berlin?", "(Europe/Berlin, UTC+0"),
        ("what time is it?", "(Europe/Berlin, UTC+0"),
        ("what is the time in Berlin", "Did you mean Europe/Berlin?"),
        ("todo: buy milk", "Your todo list:\n1. buy milk"),
        ("Felix: todo: buy milk", "1. buy milk"),
        ("add a todo call mum", "1. call mum"),
        ("add eggs to my todo list", "1. eggs"),
        ("what is on my todo list?", "Your todo list is empty."),
        ("complete todo 7", "todo returned: There is no item with the id '7'"),
        ('use todo {"action": "list"}', 'todo returned: {"todos": []}'),
        ("use todo {broken", "todo returned: The arguments are not valid JSON"),
        ("use todo", "'action' is missing"),
    ],
)
async def test_a_plain_message_gets_a_fitting_answer(text: str, words: str) -> None:
    assert words in await said(text)


@pytest.mark.parametrize(
    ("text", "name", "arguments"),
    [
        ("what time is it in Europe/Berlin?", "clock", {"timezone": "Europe/Berlin"}),
        ("What time is it?", "clock", {}),
        ("what's the date", "clock", {}),
        ("todo: buy milk", "todo", {"action": "create", "content": "buy milk"}),
        ("show my todos", "todo", {"action": "list"}),
        ("finish todo 3", "todo", {"action": "complete", "id": "3"}),
        ("cancel todo 3", "todo", {"action": "cancel", "id": "3"}),
        ("run ls -l ..", "terminal", {"command": "ls -l .."}),
        ("run `ls .`", "terminal", {"command": "ls ."}),
        (
            "run `rm -rf junk` outside the sandbox",
            "terminal",
            {"command": "rm -rf junk", "outside": True, "reason": "You asked for that."},
        ),
        ("run make all in the background", "terminal", IN_BACKGROUND | {"command": "make all", "check_interval": 30}),
        (
            "please start `python3 -m http.server` in the background and tell me every 2 minutes.",
            "terminal",
            IN_BACKGROUND | {"command": "python3 -m http.server", "check_interval": 120},
        ),
        (
            "run sleep 90 in the background, every 40 seconds",
            "terminal",
            IN_BACKGROUND | {"command": "sleep 90", "check_interval": 40},
        ),
        ("what is running?", "process", {"action": "list"}),
        ("stop proc_0a1b", "process", {"action": "kill", "session_id": "proc_0a1b"}),
        ("remember that I like tea", "memory", {"action": "set", "key": "i_like_tea", "value": "I like tea"}),
        ("every 5 minutes say hi", "cronjob", {"action": "create", "schedule": "every 5 minutes", "prompt": "say hi"}),
        (
            "every monday at 09:00, say good morning",
            "cronjob",
            {"action": "create", "schedule": "every monday at 09:00", "prompt": "say good morning"},
        ),
        (
            "remind me in 2 minutes to call Ada",
            "cronjob",
            {"action": "create", "schedule": "in 2 minutes", "prompt": "Remind me to call Ada"},
        ),
        ("what is scheduled?", "cronjob", {"action": "list"}),
        ('pause the job "Daily"', "cronjob", {"action": "pause", "name": "Daily"}),
    ],
)
async def test_a_plain_request_becomes_a_real_tool_call(text: str, name: str, arguments: dict[str, Any]) -> None:
    tools = [answering(tool) for tool in ("clock", "todo", "terminal", "process", "memory", "cronjob")]
    (made,) = (await first_reply(user(text), tools=tools)).tool_calls
    assert (made.name, json.loads(made.arguments)) == (name, arguments)


@pytest.mark.parametrize(
    ("text", "result", "words"),
    [
        ("run ls", {"output": "a\nb\n", "error": None, "exit_code": 0}, "```\na\nb\n```"),
        ("run true", {"output": "", "error": None, "exit_code": 0}, "Done, no output."),
        ("run false", {"output": "", "error": None, "exit_code": 1}, "No output.\nIt ended with exit code 1."),
        ("run x", {"output": "no\n", "error": None, "exit_code": 3}, "```\nno\n```\nIt ended with exit code 3."),
        ("run cat", {"output": "```\n", "error": None, "exit_code": 0, "note": "So."}, "~~~~\n```\n~~~~\nSo."),
        ("run a in the background", {"session_id": "proc_1", "pid": 5}, "as proc_1 (“stop proc_1” ends it)"),
        (
            "stop proc_1",
            {"session_id": "proc_1", "status": "exited", "exit_code": 143},
            "proc_1 has ended (exit code 143)",
        ),
        ("what is running", {"processes": []}, "Nothing is running."),
        ("what is running", {"processes": [ROW | {"status": "running"}]}, "proc_1: make (running for 7 s)"),
        (
            "what is running",
            {"processes": [ROW | {"status": "exited", "exit_code": 2}]},
            "proc_1: make (exited with exit code 2)",
        ),
    ],
)
async def test_what_came_of_a_command_is_told_in_words(text: str, result: dict[str, Any], words: str) -> None:
    tools = [answering("terminal"), answering("process")]
    asked = await first_reply(user(text), tools=tools)
    (made,) = asked.tool_calls
    assert words in (await first_reply(user(text), asked, tool_result(made, json.dumps(result)), tools=tools)).text


async def test_use_passes_the_arguments_on_as_they_stand() -> None:
    (made,) = (await first_reply(user('use todo {"a":  1,\n "b": [}'))).tool_calls
    assert (made.name, made.arguments) == ("todo", '{"a":  1,\n "b": [}')


async def test_messages_sent_together_are_all_answered_in_order() -> None:
    answer = await said("hello", "todo: buy milk", "what is 2 + 2?", "todo: call mum", "run ls")
    parts = ["Hello!", "1. buy milk", "2 + 2 = 4", "2. call mum", "not switched on"]
    positions = [answer.index(part) for part in parts]
    assert positions == sorted(positions)


async def test_a_request_that_came_while_a_tool_ran_is_served_too() -> None:
    first = ToolCall(id="1", name="echo", arguments="{}")
    so_far = [user("use echo"), assistant(tool_calls=(first,)), tool_result(first, "one"), user("use echo {}")]
    reply = await first_reply(*so_far, tools=[answering("echo")])
    (second,) = reply.tool_calls
    last = await first_reply(*so_far, reply, tool_result(second, "two"), tools=[answering("echo")])
    assert last.text == "echo returned: one\n\necho returned: two"


async def test_only_messages_since_the_last_answer_are_answered() -> None:
    reply = await first_reply(user("what is 1 + 1?"), assistant("1 + 1 = 2"), user("what is 2 + 2?"))
    assert reply.text == "2 + 2 = 4"


@pytest.mark.parametrize(("settled", "words"), [(interrupted_by_restart, "interrupted"), (stopped_by_user, "stopped")])
@pytest.mark.parametrize("text", ["todo: buy milk", 'use todo {"action": "list"}'])
async def test_an_interrupted_call_is_told_as_such(text: str, settled: object, words: str) -> None:
    assert callable(settled)
    asking = await first_reply(user(text))
    answer = await first_reply(user(text), asking, settled(asking.tool_calls[0]))
    assert words in answer.text
    assert "Your todo list" not in answer.text


async def test_a_failed_tool_is_told_in_its_words() -> None:
    assert await said("use lift", tools=[raising("lift", ToolFailed("Too heavy."))]) == "lift returned: Too heavy."


async def test_a_tool_of_a_known_name_that_answers_otherwise_is_quoted() -> None:
    assert await said("what time is it?", tools=[answering("clock", "late")]) == "clock returned: late"


async def test_a_long_result_is_cut() -> None:
    assert len(await said("use echo", tools=[answering("echo", "x" * 10_000)])) < 2_000


async def test_at_the_limit_it_tells_what_came_back_and_nothing_else() -> None:
    made = ToolCall(id="1", name="echo", arguments="{}")
    done = [user("use echo"), assistant(tool_calls=(made,)), tool_result(made, "one")]
    assert (await first_reply(*done, SUMMARY_REQUEST, tools=[])).text == "echo returned: one"


@pytest.mark.parametrize("text", ["hello", "use todo", "use echo"])
async def test_the_pieces_it_streams_make_up_the_text(text: str) -> None:
    events: list[Event] = []
    made = ToolCall(id="1", name="echo", arguments="{}")
    echoed = [user(text), assistant(tool_calls=(made,)), tool_result(made, " two\n\nlines \n")]
    reply = await DemoModel().reply(echoed, fresh_tools(), events.append)
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == reply.text
    assert isinstance(events[-1], Usage)
    assert events[-1].output_tokens > 0


async def test_an_answer_comes_in_several_pieces() -> None:
    events: list[Event] = []
    await DemoModel().reply([user("hello")], [], events.append)
    assert sum(isinstance(event, TextDelta) for event in events) > 1
