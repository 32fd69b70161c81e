"""Whatever is in a transcript, the strictest server takes what we make of it."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_core.conversation import Message, ToolCall, assistant, tool_result, user
from agent_core.history import EMPTY, GO_ON, LEFT_OUT, NO_OUTPUT, repair
from agent_core.models.openai_request import build_request, encode
from agent_core.models.providers import Endpoint
from playground.model_rules import find_problem
from tests.agent_core.scripted import answering, call
from tools.content import Location, Media, Text

ENDPOINT = Endpoint(provider="Test", model="m", base_url="http://127.0.0.1:1/v1", sees_images=True)
IMAGES = {"aa": "data:image/png;base64,AAAA"}

words = st.sampled_from(["", " ", "\n", "hello", "half \ud83d", "nul \0", "é"]) | st.text(max_size=8)
arguments = st.sampled_from(
    ["", "{}", '{"a": 1}', "{", "[]", "null", '{"a": NaN}', '"{}"', '{"a": "\\ud800"}', "\ud800", "[" * 5000]
)
ids = st.sampled_from(["", "a", "b", "c", "call_1", "functions.x:0", "x" * 50, "ü"])
names = st.sampled_from(["look", "", "a.b", "x" * 80, "söme", "look at"])
calls = st.builds(ToolCall, id=ids, name=names, arguments=arguments)
texts = st.builds(Text, text=words)
images = st.builds(
    Media,
    kind=st.sampled_from(["image", "file"]),
    mime=st.just("image/png"),
    sha256=st.sampled_from(["", "aa", "bb"]),
)
parts = st.lists(texts | images | st.builds(Location, latitude=st.just(1.0), longitude=st.just(2.0)), max_size=3)
messages = st.builds(
    Message,
    role=st.sampled_from(["system", "user", "assistant", "tool"]),
    parts=parts.map(tuple),
    tool_calls=st.lists(calls, max_size=3).map(tuple),
    tool_call_id=ids,
    tool_name=names,
    reasoning=words,
)


def request(history: list[Message], **options: Any) -> Any:
    body = build_request(
        options.pop("endpoint", ENDPOINT),
        history,
        options.pop("tools", [answering("look")]),
        images=IMAGES,
        stream=True,
    )
    return json.loads(encode(body))


@given(st.lists(messages, max_size=8))
@settings(max_examples=200)
def test_any_history_at_all_becomes_one_that_the_strictest_server_accepts(history: list[Message]) -> None:
    assert find_problem(request(history)) == ""
    assert find_problem(request(history, tools=[])) == ""


@given(st.lists(messages, max_size=8))
@settings(max_examples=100)
def test_it_is_still_accepted_with_every_extra_on(history: list[Message]) -> None:
    rich = Endpoint(
        provider="Test",
        model="m",
        base_url="http://127.0.0.1:1/v1",
        sees_images=True,
        reasoning="reasoning_details",
        cache_breakpoints=True,
        signs_calls=True,
    )
    allowed = ["reasoning", "reasoning_details", "extra_content"]
    assert find_problem(request(history, endpoint=rich), extra_fields=allowed) == ""


@given(st.lists(messages, max_size=8))
@settings(max_examples=100)
def test_repairing_twice_changes_nothing_more(history: list[Message]) -> None:
    once = repair(history)
    assert repair(once) == once


def test_a_good_conversation_is_left_as_it_is() -> None:
    system = Message(role="system", parts=(Text(text="Be good."),))
    asked = assistant("Looking.", tool_calls=(call("look"),))
    history = [system, user("hi"), asked, tool_result(call("look"), "seen"), assistant("Done"), user("thanks")]
    assert repair(history) == history


def test_messages_of_one_person_in_a_row_become_one() -> None:
    merged = repair([user("one"), user("two"), assistant("a"), assistant("b"), user("three")])
    assert [(message.role, message.text) for message in merged] == [
        ("user", "one\n\ntwo"),
        ("assistant", "a\n\nb"),
        ("user", "three"),
    ]


def test_what_is_empty_is_filled_or_left_out() -> None:
    asked = assistant(tool_calls=(call("look"),))
    history = [user(" "), asked, tool_result(call("look"), ""), assistant("  "), user("so?")]
    assert [message.text for message in repair(history)] == [EMPTY, "", NO_OUTPUT, "so?"]


def test_a_history_that_begins_or_ends_with_the_assistant_is_framed() -> None:
    assert repair([assistant("I was saying")]) == [LEFT_OUT, assistant("I was saying"), GO_ON]
    assert repair([]) == [LEFT_OUT]


def test_what_the_system_says_later_is_told_by_the_user() -> None:
    def system(text: str) -> Message:
        return Message(role="system", parts=(Text(text=text),))

    repaired = repair([system("a"), system("b"), user("hi"), system("by the way")])
    assert [(message.role, message.text) for message in repaired] == [
        ("system", "a\n\nb"),
        ("user", "hi\n\nby the way"),
    ]


def test_ids_that_some_provider_refuses_are_replaced_the_same_way_each_time() -> None:
    odd = call("look", call_id="functions.look:0")
    history = [user("hi"), assistant(tool_calls=(odd,)), tool_result(odd, "seen")]
    first, second = repair(history), repair(history)
    assert first == second
    assert first[1].tool_calls[0].id == first[2].tool_call_id != odd.id
