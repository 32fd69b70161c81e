"""Events from bytes cut anywhere, and replies from odd pieces."""

import json
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_core.events import Event, Usage, ignore
from agent_core.models import openai_stream
from agent_core.models.openai_stream import Assembly, ErrorInStream, EventReader, EventTooLarge
from playground.model_script import ModelAnswer, ScriptedCall

STREAM = (
    b': hello\r\n\r\ndata: {"a": 1}\r\n\r\nevent: x\ndata:two\ndata: lines\nid: 7\n\ndata: [DONE]\n\ndata: unfinished'
)
EVENTS = [b'{"a": 1}', b"two\nlines", b"[DONE]", b"unfinished"]


@given(st.lists(st.integers(0, len(STREAM)), max_size=10))
def test_events_do_not_depend_on_where_the_bytes_are_cut(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(STREAM)]
    reader = EventReader()
    events = [event for start, end in pairwise(edges) for event in reader.feed(STREAM[start:end])]
    assert events + reader.end() == EVENTS


def test_an_event_without_end_is_not_kept_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openai_stream, "MAX_EVENT_BYTES", 100)
    with pytest.raises(EventTooLarge):
        EventReader().feed(b"data: " + b"x" * 200)
    with pytest.raises(EventTooLarge):
        EventReader().feed(b"data: xxxxxxxxxx\n" * 20)


def _assembled(*pieces: Any) -> Assembly:
    assembly = Assembly(ignore)
    for piece in pieces:
        assembly.add(piece)
    return assembly


def _delta(**delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta}]}


def test_streamed_and_whole_replies_come_to_the_same() -> None:
    reply = ModelAnswer(
        text=("a", "b"),
        calls=(ScriptedCall(name="look", arguments='{"x": [1, 2]}'), ScriptedCall(name="hear", id="call_2")),
        reasoning="because",
        reasoning_field="reasoning",
    )
    chunks = [json.loads(frame[6:]) for frame in reply.frames("m")[:-1]]
    streamed, whole = _assembled(*chunks), _assembled(json.loads(reply.whole("m")))
    assert streamed.message() == whole.message()
    assert streamed.usage == whole.usage


KNOWN_FIELDS = [
    "choices",
    "delta",
    "message",
    "content",
    "tool_calls",
    "function",
    "index",
    "id",
    "usage",
    "error",
    "reasoning_details",
    "reasoning",
    "name",
    "arguments",
    "finish_reason",
    "prompt_tokens",
    "text",
]
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(KNOWN_FIELDS), inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(KNOWN_FIELDS), anything, max_size=4))
def test_no_shape_of_answer_breaks_the_reader(piece: Any) -> None:
    with suppress(ErrorInStream):
        _assembled(piece, {"choices": [piece]}, _delta(**piece), piece).message()


@pytest.mark.parametrize(
    "pieces",
    [
        [{"id": "1", "function": {"name": "look"}}, {"function": {"arguments": "{}"}}],
        [{"function": {"name": "look", "arguments": {}}}],
        [{"index": 0, "id": "1", "function": {"name": "lo"}}, {"index": 0, "function": {"name": "ok"}}],
        [{"index": 0, "id": "1", "function": {"name": "look"}}, {"index": 0, "id": "1", "function": {"name": "look"}}],
        [{"index": 0, "function": {"name": "look"}}, {"index": 0, "id": "1", "function": {"arguments": "{}"}}],
        [
            {"index": 0, "id": "1", "function": {"name": "look"}},
            {"index": 0, "id": "2", "function": {"arguments": "{}"}},
        ],
        [{"id": "1", "function": {"name": "look"}}, {"id": "2", "function": {"arguments": "{}"}}],
    ],
    ids=["no index", "parsed arguments", "split name", "repeated name", "late id", "new id", "new id, no index"],
)
def test_one_call_in_odd_pieces(pieces: list[Any]) -> None:
    message = _assembled(*[_delta(tool_calls=[piece]) for piece in pieces]).message()
    assert [(call.name, call.arguments) for call in message.tool_calls] == [("look", "{}")]
    assert message.tool_calls[0].id in ("", "1")


def test_whole_calls_without_ids_stay_apart() -> None:
    calls = [{"function": {"name": name, "arguments": "{}"}} for name in ("a", "b")]
    message = _assembled({"choices": [{"message": {"tool_calls": calls}}]}).message()
    assert [call.name for call in message.tool_calls] == ["a", "b"]


@pytest.mark.parametrize("told", [-5, 10**30, 2.5, "9", None])
def test_a_count_that_cannot_be_is_left_out(told: object) -> None:
    usage = _assembled({"usage": {"prompt_tokens": 9, "completion_tokens": told}}).usage
    assert usage == Usage(input_tokens=9)


def test_usage_is_found_where_servers_put_it() -> None:
    assert _assembled({"choices": [{"usage": {"prompt_tokens": 3}}]}).usage == Usage(input_tokens=3)
    deepseek = {"usage": {"prompt_tokens": 9, "completion_tokens": 1, "prompt_cache_hit_tokens": 8}}
    assert _assembled(deepseek).usage == Usage(input_tokens=9, output_tokens=1, cached_tokens=8)


@pytest.mark.parametrize(
    ("told", "micros"),
    [
        (0.00123, 1230),
        (0, 0),
        (None, None),
        ("0.1", None),
        (True, None),
        (-1, None),
        (float("nan"), None),
        (1e300, None),
    ],
)
def test_what_it_cost_is_taken_where_the_provider_says_it(told: object, micros: int | None) -> None:
    usage = _assembled({"usage": {"prompt_tokens": 9, "cost": told}}).usage
    assert usage == Usage(input_tokens=9, cost_micros=micros)


def test_thoughts_in_two_spellings_are_told_once() -> None:
    told: list[Event] = []
    Assembly(told.append).add(_delta(reasoning="hm", reasoning_details=[{"type": "reasoning.text", "text": "hm"}]))
    assert len(told) == 1
    assert _assembled(_delta(reasoning_details=[{"summary": "in short"}])).message().reasoning == "in short"


def test_content_in_parts_is_text() -> None:
    parts = [{"type": "thinking", "thinking": []}, {"type": "text", "text": "hi"}]
    assert _assembled(_delta(content=parts)).message().text == "hi"
