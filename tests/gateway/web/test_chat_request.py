"""Requests in OpenAI's format: which messages count, and how a growing answer is sent without saying anything twice."""

import json
from typing import Any

import pytest

from gateway.web.chat_request import StreamedText, answer_task, parse_request

RESTART, TOOL = object(), object()
HI = {"role": "user", "content": "hi"}
HELLO = {"role": "assistant", "content": "hello"}
BRIEF = {"role": "system", "content": "Be brief."}
BYE = {"role": "user", "content": "bye"}


def parse(*messages: Any, **more: Any) -> Any:
    return parse_request(json.dumps({"model": "hermes", "messages": messages, **more}).encode())


@pytest.mark.parametrize(
    ("messages", "said", "history"),
    [
        ([HI], "hi", []),
        ([HI, HELLO, BYE], "bye", ["user", "assistant"]),
        ([BRIEF, HI], "hi", ["user"]),
        ([{"role": "developer", "content": "Be brief."}, HI, HELLO, BYE], "bye", ["user", "user", "assistant"]),
        ([HI, HELLO, BYE, HI], "bye\n\nhi", ["user", "assistant"]),
        ([HI, HELLO, BRIEF, BYE], "bye", ["user", "assistant", "user"]),
        ([HI, {"role": "assistant", "content": None}, BYE], "bye", ["user"]),
    ],
)
def test_what_is_asked_is_what_follows_the_last_answer(messages: Any, said: str, history: list[str]) -> None:
    request = parse(*messages)
    assert request.text == said
    assert [message.role for message in request.history] == history


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({}, ""),
        ({"user": ""}, ""),
        ({"user": "ada@example.org"}, "ada@example.org"),
        ({"user": "ada", "metadata": {"session": "notes"}}, "notes"),
        ({"user": "ada", "metadata": {"other": 1}}, "ada"),
        ({"user": "ada", "metadata": "x"}, "ada"),
    ],
)
def test_a_conversation_is_named_by_its_session_or_its_user(given: Any, name: str) -> None:
    assert parse(HI, **given).conversation == name


def test_no_name_can_pass_for_another_conversation() -> None:
    odd = ["a:b", "~1", "a b", "é", "x" * 100, "a/../b", "n\n"]
    names = {parse(HI, user=name).conversation for name in odd}
    assert len(names) == len(odd)
    assert all(name.startswith("n-") and len(name) == 26 for name in names)


@pytest.mark.parametrize(
    ("events", "answer", "sent"),
    [
        (["6 * 7", " = 42"], "6 * 7 = 42", "6 * 7 = 42"),
        ([], "6 * 7 = 42", "6 * 7 = 42"),
        # The model begins again, with the same words, with fewer at first, and with others.
        (["6 * 7", RESTART, "6 * 7", " = 42"], "6 * 7 = 42", "6 * 7 = 42"),
        (["6 * 7 =", RESTART, "6 *", " 7 = 42"], "6 * 7 = 42", "6 * 7 = 42"),
        (["Hm", RESTART, "It is 42"], "It is 42", "Hm\n\nIt is 42"),
        # Words before a tool stay; the answer follows after a gap.
        (["Let me look.", TOOL, "It is ", "noon."], "It is noon.", "Let me look.\n\nIt is noon."),
        ([TOOL, TOOL, "It is noon."], "It is noon.", "It is noon."),
        # The answer that is stored is shorter by its blanks, longer by a note, or another.
        (["It is noon. \n"], "It is noon.", "It is noon. \n"),
        (["It is noon."], "It is noon.\n\n(note)", "It is noon.\n\n(note)"),
        (["The key is sk-1"], "The key is [hidden]", "The key is sk-1\n\nThe key is [hidden]"),
    ],
)
def test_a_streamed_answer_ends_as_the_stored_one_and_repeats_nothing(
    events: list[Any], answer: str, sent: str
) -> None:
    stream, out = StreamedText(), ""
    for event in events:
        if event is RESTART:
            stream.restart()
        elif event is TOOL:
            stream.end_reply()
        else:
            out += stream.add(event)
    assert out + stream.finish(answer) == sent


@pytest.mark.parametrize("text", ["hi", "### Task: build it", "### Task:\n<chat_history></chat_history>", ""])
def test_ordinary_requests_are_not_taken_for_those_of_a_front_end(text: str) -> None:
    assert answer_task(text) is None
