"""The format of trajectories: there and back again, on disk, and as the `datasets` reader sees it."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_core.conversation import Message, ToolCall, assistant, tool_result, user
from agent_core.trajectory import append, count_tools, from_sharegpt, read_rows, to_sharegpt
from tests.agent_core.scripted import answering

_TAGS = ("<think>\n", "\n</think>", "<tool_call>", "</tool_call>", "<tool_response>\n{}", "<tools>\n[]\n</tools>", "\n")
_TEXTS = st.lists(st.one_of(st.sampled_from(_TAGS), st.text(max_size=8)), max_size=5).map("".join)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
_ARGUMENTS = st.one_of(_TEXTS, _JSON.map(json.dumps), st.sampled_from(['"5"', "5", "{broken", '{"a":1,"a":2}', ""]))


@st.composite
def _conversations(draw: st.DrawFn) -> list[Message]:
    messages: list[Message] = []
    for _ in range(draw(st.integers(0, 3))):
        messages.append(user(draw(_TEXTS)))
        for _ in range(draw(st.integers(0, 2))):
            names = draw(st.lists(st.sampled_from(["terminal", "file_read", "a b"]), max_size=3))
            calls = tuple(
                ToolCall(id=f"c{number}", name=name, arguments=draw(_ARGUMENTS)) for number, name in enumerate(names)
            )
            messages.append(assistant(draw(_TEXTS), tool_calls=calls, reasoning=draw(_TEXTS)))
            messages += [tool_result(call, draw(_ARGUMENTS)) for call in calls]
    return messages


@settings(deadline=None)
@given(messages=_conversations(), system=_TEXTS, offers=st.booleans())
def test_a_trajectory_read_into_messages_and_written_again_is_the_same(
    messages: list[Message], system: str, offers: bool
) -> None:
    turns = to_sharegpt(messages, [answering("terminal")] if offers else [], system=system)
    read = from_sharegpt(turns)
    assert to_sharegpt(read.messages, read.tools, system=read.system) == turns


def test_what_is_read_back_is_what_was_said() -> None:
    calls = (ToolCall(id="1", name="a", arguments='{"x": 1}'), ToolCall(id="2", name="b", arguments="{broken"))
    said = [user("go"), assistant("on it", tool_calls=calls, reasoning="hm"), *(tool_result(c, "ok") for c in calls)]
    read = from_sharegpt(to_sharegpt([*said, assistant("done")], [answering("a")], system="Be brief."))
    assert (read.system, [tool["name"] for tool in read.tools]) == ("Be brief.", ["a"])
    assert list(read.messages) == [*said, assistant("done")]


def test_what_is_no_trajectory_is_refused() -> None:
    for turns in (
        [{"from": "robot", "value": ""}],
        [{"from": "tool", "value": "<tool_response>\n1\n</tool_response>"}],
    ):
        with pytest.raises(ValueError, match="turn 1"):
            from_sharegpt(turns)


def test_tools_are_counted_by_name() -> None:
    results = [
        tool_result(ToolCall(id=str(at), name=name, arguments=""), "x", is_error=at == 0)
        for at, name in enumerate(("b", "a", "b"))
    ]
    assert count_tools(results) == [
        {"tool": "b", "calls": 2, "failures": 1},
        {"tool": "a", "calls": 1, "failures": 0},
    ]


def test_a_line_torn_by_a_crash_costs_itself_only(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    append(file, [b'{"n": 1}\n', b'{"n": 2, "te'])
    append(file, [b'{"n": 3}\n'])
    assert list(read_rows(file)) == [(1, {"n": 1}), (2, None), (3, {"n": 3})]
    assert os.stat(file).st_mode & 0o777 == 0o600
