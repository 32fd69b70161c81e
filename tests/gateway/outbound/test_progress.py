"""What a running turn looks like: the line about what it does, and as much of the answer as fits."""

import pytest

from agent_core.conversation import Message, ToolCall
from agent_core.events import Done, ReasoningDelta, Restarted, TextDelta, ToolFinished, ToolStarted, ToolWaiting
from gateway.messages import TOOL_PROGRESS_MODES, ToolProgressMode, parse_tool_progress_mode
from gateway.outbound.progress import DraftContent, describe_call, draft_markdown
from gateway.platforms.text import utf16_len
from tools.content import Text


def call(name: str, arguments: str = "{}") -> ToolCall:
    return ToolCall(id="1", name=name, arguments=arguments)


def finished(result: str, *, error: bool = False) -> ToolFinished:
    message = Message(role="tool", parts=(Text(text=result),), is_error=error)
    return ToolFinished(call=call("terminal"), result=message, seconds=1.26)


def started(name: str, arguments: str = "{}") -> ToolStarted:
    return ToolStarted(call=call(name, arguments))


LS, PWD = started("terminal", '{"command": "ls -la"}'), started("terminal", '{"command": "pwd"}')
SEARCH = started("web_search", '{"limit": 3, "query": "cheap flights"}')


def heads(mode: ToolProgressMode, *events: ToolStarted | ToolFinished | TextDelta) -> list[str]:
    content = DraftContent(mode)
    shown = []
    for event in events:
        content.take(event)
        shown.append(content.head)
    return shown


def test_it_thinks_then_writes() -> None:
    content = DraftContent("new")
    assert (content.head, content.text) == ("💭 Thinking…", "")
    for word in ("The ", "answer"):
        content.take(TextDelta(text=word))
    assert (content.head, content.text) == ("✍️ Writing…", "The answer")


@pytest.mark.parametrize(
    ("tool", "line"),
    [
        (LS, "💻 `ls -la`"),
        (SEARCH, "🔍 web_search: `cheap flights`"),
        (started("todo"), "☑️ todo"),
        (started("terminal"), "💻 terminal"),
        (started("made_up", '{"n": 1, "blank": " ", "words": "a\\nb"}'), "🔧 made_up: `a b`"),
        (started("made_up", "[1]"), "🔧 made_up"),
        (started("made_up", "{broken"), "🔧 made_up"),
        (started("made_up", '{"text": "`**x**`"}'), "🔧 made_up: `'**x**'`"),
        (started("a`b"), "🔧 a'b"),
    ],
)
def test_a_tool_is_told_in_one_line_that_marks_nothing_up(tool: ToolStarted, line: str) -> None:
    assert describe_call(tool.call) == line


def test_a_long_argument_is_cut() -> None:
    line = describe_call(call("terminal", '{"command": "%s"}' % ("x" * 5000)))
    assert line == f"💻 `{'x' * 79}…`"


def test_off_tells_of_no_tool() -> None:
    assert heads("off", LS, SEARCH) == ["💭 Thinking…"] * 2


def test_new_tells_of_a_tool_once_until_another_is_used() -> None:
    told = heads("new", LS, PWD, SEARCH, PWD)
    assert told == ["💻 `ls -la`", "💻 `ls -la`", "🔍 web_search: `cheap flights`", "💻 `pwd`"]


def test_all_tells_of_every_use() -> None:
    assert heads("all", LS, PWD) == ["💻 `ls -la`", "💻 `pwd`"]


def test_verbose_tells_what_came_of_it_and_keeps_the_last_few_lines() -> None:
    told = heads("verbose", LS, finished("a\nb"), PWD, finished("no such thing", error=True), SEARCH, finished(""))
    assert told[1] == "💻 `ls -la`\n↳ `a b` (1.3 s)"
    assert told[-1].splitlines() == [
        "↳ `a b` (1.3 s)",
        "💻 `pwd`",
        "↳ failed: `no such thing` (1.3 s)",
        "🔍 web_search: `cheap flights`",
        "↳ nothing (1.3 s)",
    ]


def test_what_was_said_before_a_tool_is_no_part_of_the_answer() -> None:
    content = DraftContent("new")
    for event in (TextDelta(text="Let me look."), LS, TextDelta(text="It is")):
        content.take(event)
    assert content.text == "It is"
    content.take(Restarted())
    assert (content.head, content.text) == ("💻 `ls -la`", "")


def test_the_version_grows_with_what_is_shown_and_only_then() -> None:
    content = DraftContent("new")
    for event in (ReasoningDelta(text="hm"), finished("done"), ToolWaiting(waits=True), Done(finished_naturally=True)):
        content.take(event)
    assert content.version == 0
    for change in (TextDelta(text="a"), Restarted(), LS):
        content.take(change)
    assert content.version == 3


def test_it_is_known_whether_it_waits_for_a_person() -> None:
    content = DraftContent("new")
    content.take(ToolWaiting(waits=True))
    assert content.is_waiting
    content.take(ToolWaiting(waits=False))
    assert not content.is_waiting


def test_a_mode_is_one_of_four_words() -> None:
    assert [parse_tool_progress_mode(word) for word in ("off", "new", "all", "verbose")] == list(TOOL_PROGRESS_MODES)
    assert parse_tool_progress_mode("loud") is None


def test_a_short_answer_is_shown_whole() -> None:
    assert draft_markdown("✍️ Writing…", "a\n\nb", 100) == "✍️ Writing…\n\na\n\nb"
    assert draft_markdown("💭 Thinking…", "", 100) == "💭 Thinking…"


@pytest.mark.parametrize("letter", ["x", "ü", "字", "🙂"])
def test_of_a_long_answer_the_end_is_shown_and_it_fits(letter: str) -> None:
    shown = draft_markdown("✍️ Writing…", letter * 500 + "END", 300)
    assert shown.startswith("✍️ Writing…\n\n…\n")
    assert shown.endswith(f"{letter}END")
    assert 200 < utf16_len(shown) <= 300


def test_a_cut_is_made_at_a_line_where_there_is_one() -> None:
    text = "\n".join(f"line {number}" for number in range(200))
    shown = draft_markdown("head", text, 200)
    assert shown.splitlines()[3].startswith("line ")
    assert shown.endswith("line 199")


def test_a_cut_inside_of_code_opens_it_again() -> None:
    shown = draft_markdown("head", "```\n" + "code\n" * 100, 200)
    assert shown.startswith("head\n\n…\n```\ncode")
    assert utf16_len(shown) <= 200
