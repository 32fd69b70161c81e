"""Whose words are whose in a conversation."""

import json

import pytest

from agent_core.conversation import Message, ToolCall, assistant, system, tool_result, user
from agent_core.openai_format import conversation_from_openai
from agent_core.prompt import Layers, build_prompt
from agent_core.provenance import defer_provenance, read_provenance
from tools.base import Tool, ToolContext, ToolOutput
from tools.content import Location, Media, Part, Quote, Text, dump_parts, load_parts
from tools.loading import load_builtin
from tools.provenance import HERMES, UNKNOWN_TOOL, Passage, Provenance

OURS = [tool for tool in load_builtin() if tool.brings != UNKNOWN_TOOL]


async def _run(arguments: str, context: ToolContext) -> ToolOutput:
    return ""


def said(*parts: Part) -> Provenance:
    return read_provenance([Message(role="user", parts=parts)], OURS)


def result(name: str, output: object) -> Message:
    text = output if isinstance(output, str) else json.dumps(output)
    return tool_result(ToolCall(id="1", name=name, arguments="{}"), text)


def test_what_people_write_is_their_own() -> None:
    assert said(Text(text="run it")) == Provenance(own_words="run it")
    assert read_provenance([user("one"), assistant("no"), user("two")], OURS).own_words == "one\ntwo"


OUTSIDE: list[tuple[Part, str, str]] = [
    (Quote(text="rm it", author="eve", how="forwarded from"), "forward", "a forwarded message"),
    (Quote(text="rm it", author="eve"), "quote", "a quoted message"),
    (Quote(text="", author="rm it"), "quote", "a quoted message"),
    (Media(kind="file", name="a.txt", text="rm it"), "attachment:a.txt", "the attachment a.txt"),
    (Media(kind="image", name="rm it"), "attachment:rm it", "the attachment rm it"),
    (Media(kind="audio", text="rm it"), "attachment:audio", "the attachment audio"),
    (Location(latitude=0, longitude=0, name="rm it"), "location", "a shared location"),
    (Text(text="rm it", origin="chat"), "chat", "what others said in the chat"),
    (Text(text="rm it", origin="mcp:files"), "mcp:files", "the MCP server files"),
    (Text(text="rm it", origin="of a newer version"), "of a newer version", "of a newer version"),
]


@pytest.mark.parametrize(("part", "origin", "source"), OUTSIDE)
def test_what_others_say_is_not(part: Part, origin: str, source: str) -> None:
    (kept,) = load_parts(dump_parts([part]))
    heard = said(Text(text="look"), kept)
    assert heard.own_words == "look"
    assert [(one.origin, one.source, "rm it" in one.text) for one in heard.outside] == [(origin, source, True)]


def test_what_we_add_ourselves_is_neither() -> None:
    assert said(Text(text="Ada:", origin=HERMES), Text(text="look")) == Provenance(own_words="look")


def test_nothing_is_told_by_how_a_text_begins() -> None:
    assert said(Text(text="[Background process x ended.]")).outside == ()


def test_a_text_of_before_has_no_origin_and_reads_as_it_did() -> None:
    assert load_parts('[{"type": "text", "text": "hello"}]') == (Text(text="hello"),)
    assert dump_parts([Text(text="hello")]) == '[{"type": "text", "text": "hello"}]'


def test_a_result_says_where_it_comes_from() -> None:
    call = ToolCall(id="1", name="weather", arguments="{}")
    messages = [
        tool_result(call, json.dumps({"content": '     1|say "rm it"\n     2|now'}), origin="file"),
        tool_result(call, "ours", origin=HERMES),
        tool_result(call, (Text(text="a page", origin="web"), Text(text="plain words"))),
    ]
    outside = read_provenance(messages, OURS).outside
    assert [one.origin for one in outside] == ["file", "web", "tool:weather"]
    assert [one.source for one in outside] == ["a file", "the web", "the output of weather"]
    assert 'say "rm it"\n     2|now' in outside[0].text
    assert outside[2].text == "plain words"


@pytest.mark.parametrize("name", ["todo", "weather", ""])
def test_a_result_without_an_origin_is_from_outside(name: str) -> None:
    wire = [{"role": "user", "content": "go"}, {"role": "tool", "tool_call_id": "1", "name": name, "content": "rm it"}]
    heard = read_provenance(conversation_from_openai(wire), OURS)
    assert heard == Provenance(own_words="go", outside=(Passage(origin=f"tool:{name}", text="rm it"),))


def test_a_result_that_lost_its_middle_is_read_all_the_same() -> None:
    cut = '{"content": "one\\nsay \\"rm it\\"\n[… 9 characters omitted …]\nrest'
    (passage,) = read_provenance([result("file_read", cut)], OURS).outside
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
    found = {one.origin: one.text for one in read_provenance([prompt], [*OURS, other]).outside}
    assert found["project"].endswith("run make deploy")
    assert "run rm" in found["description:weather"]
    assert "deep" in found["description:weather"]
    assert read_provenance([system(build_prompt(Layers(personality="be kind")))], OURS) == Provenance()


def test_what_calls_have_written_and_run_is_known() -> None:
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
                ("terminal", '{"command": "make"}'),
                ("process", '{"action": "submit", "data": "ls"}'),
                ("process", '{"action": "list"}'),
            ]
        )
    )
    found = read_provenance([assistant(tool_calls=calls)], OURS)
    assert (found.written, found.ran) == (("a.sh", "b.sh"), ("make", "ls"))


def test_a_conversation_is_looked_through_once_and_only_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []

    def look(messages: object, tools: object) -> Provenance:
        looks.append(1)
        return Provenance()

    monkeypatch.setattr("agent_core.provenance.read_provenance", look)
    heard = defer_provenance([user("x")], OURS)
    assert looks == []
    assert heard() is heard()
    assert looks == [1]


def test_all_tools_that_come_with_hermes_say_what_they_bring() -> None:
    assert {tool.name for tool in load_builtin() if tool.brings == UNKNOWN_TOOL} <= {"unknown"}
