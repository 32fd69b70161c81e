from dataclasses import fields
from typing import Any

import pytest

from agent_core.conversation import Message, ToolCall, assistant, tool_result, user
from agent_core.openai_format import conversation_from_openai, message_from_openai, message_to_openai, tool_to_openai
from agent_core.result import AgentResult, ToolError, TurnOutcome, final_text, tool_names
from tests.agent_core.scripted import answering, asks, call
from tools.content import Text

LOOK = call("look", '{"at": "it"}')
OUTCOME = TurnOutcome(
    history=(user("go on"),),
    messages=(
        asks(LOOK, reasoning="let me see"),
        tool_result(LOOK, '{"error": "It is dark."}', is_error=True),
        assistant("too dark"),
    ),
    finished_naturally=True,
)


def test_the_result_has_exactly_the_agreed_fields() -> None:
    assert {field.name for field in fields(AgentResult)} == {
        "messages",
        "managed_state",
        "turns_used",
        "finished_naturally",
        "reasoning_per_turn",
        "tool_errors",
    }
    assert [field.name for field in fields(ToolError)] == ["turn", "tool_name", "arguments", "error", "tool_result"]
    for absent in ("final_response", "tool_calls", "tools_used", "output", "response"):
        assert not hasattr(OUTCOME.result, absent)


def test_the_result_counts_every_model_call_and_records_each_error() -> None:
    result = OUTCOME.result
    assert result.turns_used == 2
    assert result.reasoning_per_turn == ["let me see", None]
    assert result.managed_state is None
    assert result.tool_errors == [
        ToolError(
            turn=1,
            tool_name="look",
            arguments='{"at": "it"}',
            error="It is dark.",
            tool_result='{"error": "It is dark."}',
        )
    ]


def test_the_messages_are_in_openai_format_with_the_answer_last() -> None:
    assert OUTCOME.result.messages == [
        {"role": "user", "content": "go on"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "call_look", "type": "function", "function": {"name": "look", "arguments": '{"at": "it"}'}}
            ],
            "reasoning_content": "let me see",
        },
        {"role": "tool", "tool_call_id": "call_look", "content": '{"error": "It is dark."}'},
        {"role": "assistant", "content": "too dark"},
    ]


def test_helpers_read_the_answer_and_the_tools_from_the_messages() -> None:
    assert final_text(OUTCOME.result.messages) == "too dark"
    assert final_text([]) == ""
    assert tool_names(OUTCOME.result.messages) == ["look"]


def test_broken_arguments_and_names_are_made_fit_for_the_api() -> None:
    broken = (ToolCall(id="1", name="look at/it", arguments='{"at":'), ToolCall(id="2", name="", arguments=""))
    wire = message_to_openai(Message(role="assistant", tool_calls=broken))
    assert [made["function"] for made in wire["tool_calls"]] == [
        {"name": "look_at_it", "arguments": '{"invalid_arguments": "{\\"at\\":"}'},
        {"name": "unnamed", "arguments": "{}"},
    ]


def test_reasoning_is_left_out_unless_it_is_asked_for() -> None:
    assert "reasoning_content" not in message_to_openai(assistant("hi", reasoning="hm"))


@pytest.mark.parametrize(
    "message",
    [
        user("hi"),
        Message(role="system", parts=(Text(text="be good"),)),
        assistant("hello", reasoning="hm"),
        asks(LOOK, reasoning="let me see"),
        assistant("looking", tool_calls=(LOOK, call("hear"))),
        Message(role="tool", parts=(Text(text="dark"),), tool_call_id="call_look"),
        assistant(),
    ],
)
def test_a_message_comes_back_from_openai_format_as_it_was(message: Message) -> None:
    assert message_from_openai(message_to_openai(message, with_reasoning=True)) == message


def test_a_conversation_comes_back_with_the_names_of_its_tools() -> None:
    back = conversation_from_openai(OUTCOME.result.messages)
    assert [(message.role, message.tool_name) for message in back][2] == ("tool", "look")
    assert TurnOutcome(history=tuple(back), messages=(), finished_naturally=True).result.messages == (
        OUTCOME.result.messages
    )


def test_parts_of_openai_format_are_read_as_words() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    read = message_from_openai({"role": "user", "content": [{"type": "text", "text": "look"}, image]})
    assert read.text == "look\n[image_url]"
    assert message_from_openai({"role": "developer", "content": "be good"}).role == "system"


@pytest.mark.parametrize(
    "wire",
    [
        {},
        {"role": "robot", "content": "hi"},
        {"role": "user", "content": 7},
        {"role": "tool", "content": "no call"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
    ],
)
def test_what_is_no_message_is_refused(wire: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"role|OpenAI format"):
        message_from_openai(wire)


def test_a_tool_is_offered_as_a_function() -> None:
    assert tool_to_openai(answering("look")) == {
        "type": "function",
        "function": {"name": "look", "description": "", "parameters": {"type": "object"}},
    }
