"""Whose words are whose in a conversation."""

import json

import pytest

from agent_core.conversation import Message, ToolCall, assistant, system, tool_result, user
from agent_core.prompt import Layers, build_prompt
from agent_core.provenance import heard_in, hearing
from tools.base import Tool, ToolContext, ToolOutput
from tools.content import Location, Media, Part, Quote, Text, dump_parts, load_parts
from tools.loading import load_builtin
from tools.provenance import Provenance

OURS = [tool for tool in load_builtin() if tool.brings != "a tool"]


async def _run(arguments: str, context: ToolContext) -> ToolOutput:
    return ""


def said(*parts: Part) -> Provenance:
    return heard_in([Message(role="user", parts=parts)], OURS)


def result(name: str, output: object) -> Message:
    text = output if isinstance(output, str) else json.dumps(output)
    return tool_result(ToolCall(id="1", name=name, arguments="{}"), text)


def test_what_people_write_is_their_own() -> None:
    assert said(Text(text="run it")) == Provenance(own_words="run it")
    assert heard_in([user("one"), assistant("no"), user("two")], OURS).own_words == "one\ntwo"


OUTSIDE: list[tuple[Part, str, str]] = [
    (Quote(text="rm it", author="eve", how="forwarded from"), "a forwarded message", "rm it"),
    (Quote(text="rm it", author="eve"), "a quoted message", "rm it"),
    (Quote(text="", author="rm it"), "a quoted message", "rm it"),
    (Media(kind="file", name="a.txt", text="rm it"), "the file a.txt that was sent", "rm it"),
    (Media(kind="image", name="rm it"), "the file rm it that was sent", "rm it"),
    (Media(kind="audio", text="rm it"), "the audio that was sent", "rm it"),
    (Location(latitude=0, longitude=0, name="rm it"), "a place that was sent", "rm it"),
    (Text(text="rm it", origin="what others said in the chat"), "what others said in the chat", "rm it"),
    # Where they name no origin: told by how they begin.
    (
        Text(text="[Said in this chat meanwhile, but not to you. It is …]\n> rm it"),
        "what others said in the chat",
        "rm it",
    ),
    (Text(text="[Background process proc_1 (x) ended.]\n> rm it"), "a command", "rm it"),
]


@pytest.mark.parametrize(("part", "origin", "words"), OUTSIDE)
def test_what_others_say_is_not(part: Part, origin: str, words: str) -> None:
    (kept,) = load_parts(dump_parts([part]))
    heard = said(Text(text="look"), kept)
    assert heard.own_words == "look"
    assert [(one.origin, words in one.text) for one in heard.outside] == [(origin, True)]


def test_a_text_of_before_has_no_origin_and_reads_as_it_did() -> None:
    assert load_parts('[{"type": "text", "text": "hello"}]') == (Text(text="hello"),)
    assert dump_parts([Text(text="hello")]) == '[{"type": "text", "text": "hello"}]'


def test_results_are_named_by_what_their_tool_brings() -> None:
    messages = [
        result("file_read", {"content": '     1|say "rm it"\n     2|now'}),
        result("terminal", {"output": "done\n", "exit_code": 0}),
        result("todo", {"todos": []}),
        result("somebodys", "plain words"),
    ]
    found = [(one.origin, one.text) for one in heard_in(messages, OURS).outside]
    assert [origin for origin, _ in found] == ["a file", "a command", "a tool"]
    assert 'say "rm it"\n     2|now' in found[0][1]
    assert found[2][1] == "plain words"


def test_a_result_that_lost_its_middle_is_read_all_the_same() -> None:
    cut = '{"content": "one\\nsay \\"rm it\\"\n[… 9 characters are left out here …]\nrest'
    (passage,) = heard_in([result("file_read", cut)], OURS).outside
    assert 'one\nsay "rm it"' in passage.text


def test_the_project_and_tools_of_others_speak_from_outside() -> None:
    prompt = system(build_prompt(Layers(personality="be kind", project="run make deploy")))
    other = Tool(
        name="weather",
        toolset="x",
        description="run rm",
        schema={"properties": {"a": {"description": "deep"}}},
        run=_run,
    )
    found = {one.origin: one.text for one in heard_in([prompt], [*OURS, other]).outside}
    assert found["the project's AGENTS.md"] == "run make deploy"
    assert "run rm" in found["the description of the tool weather"]
    assert "deep" in found["the description of the tool weather"]
    assert heard_in([system(build_prompt(Layers(personality="be kind")))], OURS) == Provenance()


def test_files_that_calls_have_written_are_known_by_name() -> None:
    calls = tuple(
        ToolCall(id=str(number), name=name, arguments=arguments)
        for number, (name, arguments) in enumerate(
            [
                ("file_write", '{"path": "a.sh", "content": "x"}'),
                ("file_patch", '{"path": "b.sh"}'),
                ("file_read", '{"path": "c.sh"}'),
                ("file_write", "{broken"),
                ("file_write", "[]"),
                ("file_write", '{"path": 3}'),
            ]
        )
    )
    assert heard_in([assistant(tool_calls=calls)], OURS).written == ("a.sh", "b.sh")


def test_a_conversation_is_looked_through_once_and_only_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []

    def look(messages: object, tools: object) -> Provenance:
        looks.append(1)
        return Provenance()

    monkeypatch.setattr("agent_core.provenance.heard_in", look)
    heard = hearing([user("x")], OURS)
    assert looks == []
    assert heard() is heard()
    assert looks == [1]


def test_all_tools_that_come_with_hermes_say_what_they_bring() -> None:
    assert {tool.name for tool in load_builtin() if tool.brings == "a tool"} <= {"unknown"}
