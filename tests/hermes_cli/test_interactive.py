"""The chat at a real terminal, on a screen that is really drawn."""

import json
import re
import threading
from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from rich.markdown import Markdown

from agent_core.conversation import ToolCall, tool_result
from agent_core.events import Restarted, TextDelta, ToolFinished, ToolStarted, Usage
from gateway.commands.registry import CommandReply, CommandSpec
from hermes_cli.input_line import ChatCompleter, Pastes, find_files
from hermes_cli.live_view import LiveView
from hermes_cli.prompting import describe_question
from tests.hermes_cli.at_a_terminal import AtATerminal
from tools.approval.gate import Question

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x02\0\0\0\x02\x08\x02\0\0\0\xfd\xd4\x9as"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TERMINAL_ENV", "local")  # in a sandbox nothing would ask
    (tmp_path / "proj").mkdir()
    return tmp_path / "proj"


def test_a_conversation_with_tools_a_question_and_ctrl_c(folder: Path) -> None:
    (folder / "old").mkdir()
    with AtATerminal(cwd=folder, rows=60) as seat:
        seat.until_screen("demo · 0 tokens")
        seat.press("what is 17 * 23?\r")
        seat.until_screen("= 391")
        seat.press("run `seq 10`\r")
        seat.until_screen("● terminal seq 10")
        seat.until_screen("… 7 more lines (Ctrl-O shows them)")

        seat.press("run `rm -r old`\r")
        seat.until_screen("May I do this?\n    rm -r old")
        seat.until_screen("[o]nce, [s]ession")
        seat.press("perhaps\r")
        seat.until_screen("That is no answer to the question.")
        seat.press("o\r")
        seat.until_screen("You answered: once")
        seat.until_screen("● terminal rm -r old")
        seat.until_screen("[o]nce", gone=True)
        assert not (folder / "old").exists()

        seat.press("run `sleep 600`\r")
        seat.until_screen("terminal sleep 600 (")
        seat.press("what is 2 + 2?\r")  # while it runs
        seat.until_screen("waiting: what is 2 + 2?")
        seat.press("\x03")
        seat.until_screen("Stopped.")
        seat.until_screen("> what is 2 + 2?")  # given back, not lost
        seat.press("\r")
        seat.until_screen("= 4")
        seat.press("/quit\r")
        assert seat.leave() == 0
        assert "Traceback" not in seat.shown


def test_enter_sends_also_while_an_answer_is_written(folder: Path) -> None:
    usual_mode = over = False

    def watch() -> None:
        nonlocal usual_mode
        while not (usual_mode or over):
            usual_mode = seat.turns_enter_into_a_line_feed

    with AtATerminal(cwd=folder) as seat:
        seat.until_screen("demo · 0 tokens")
        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            for number in range(8):
                seat.press(f"what is {number} + 100?\r")
            seat.until_screen("= 107")
        finally:
            over = True
            watcher.join()
    assert not usual_mode


def test_ctrl_c_twice_leaves_and_continue_goes_on(folder: Path) -> None:
    with AtATerminal(cwd=folder) as seat:
        assert "Skills: systemd-service-debug, token-usage, atropos-environments, … (5)" in seat.until_screen(
            "demo · 0 tokens"
        )
        seat.press("what is 6 * 7?\r")
        seat.until_screen("= 42")
        seat.press("\x03")
        seat.until_screen("Press Ctrl-C again to leave.")
        seat.press("\x03\x03")  # the first may come too late to count
        assert seat.leave() == 0
    with AtATerminal("-c", cwd=folder, columns=40) as seat:
        seat.until_screen("Back in: what is 6 * 7?")
        seat.until_screen("- You, just now: “what is 6 * 7?”\n- Hermes, just now: “6 * 7 = 42”")
        shown = seat.until_screen("demo · 0 tokens")
        assert "@file attaches, / lists commands, Ctrl-D" in shown  # wrapped at words
        seat.press("\x04")
        assert seat.leave() == 0
    with AtATerminal("chat", "--resume", "no such words", cwd=folder) as seat:
        seat.until("No conversation at the terminal fits 'no such words'.")
        assert seat.leave() == 1


def test_a_large_paste_is_folded_and_files_go_along(folder: Path) -> None:
    (folder / "note.txt").write_text("milk and eggs\n", encoding="utf-8")
    with AtATerminal(cwd=folder, rows=40) as seat:
        seat.until_screen("demo · 0 tokens")
        pasted = "\r".join(f"line {number}" for number in range(200))
        seat.press(f"\x1b[200~{pasted}\x1b[201~")
        seat.until_screen("> [pasted text 1: 200 lines]")
        seat.press("\r")
        seat.until_screen("I am the demo model")
        seat.press("look at @no")
        seat.until_screen("note.txt")  # offered
        seat.press("te.txt\r")
        seat.until_screen("I got note.txt")
        seat.press("/re")
        seat.until_screen("/resume [id or title]")
        seat.press("\x03\x03")
        assert seat.leave() == 0
    assert "line 199" not in seat.shown.partition("look at")[0]


def view(written: list[str], *, width: int = 60, **more: object) -> LiveView:
    return LiveView(
        write=written.append,
        width=lambda: width,
        clean=lambda text: text.replace("hunter2", "***"),
        color=False,
        **more,  # type: ignore[arg-type]
    )


def test_text_is_written_by_finished_blocks_and_never_twice() -> None:
    written: list[str] = []
    live = view(written)
    live.begin()
    answer = "First hunter2 paragraph.\n\n```python\nprint(1)\n\nprint(2)\n```\nLast **words**"
    for start in range(0, len(answer), 5):
        live(TextDelta(text=answer[start : start + 5]))
    so_far = "".join(written)
    assert "First *** paragraph." in so_far
    assert "print(1)" in so_far
    assert "Last" not in so_far
    assert "Last words" in live.render(10)
    live.end(answer + "\n\n(Budget: 80 % used)")
    whole = "".join(written)
    assert [whole.count(words) for words in ("First", "print(2)", "Last words", "(Budget")] == [1, 1, 1, 1]
    assert live.render(10) == ""


def test_a_fence_is_one_block_and_an_answer_that_begins_again_says_so() -> None:
    written: list[str] = []
    live = view(written)
    live.begin()
    live(TextDelta(text="```\na\n\nb\n"))
    assert written == []
    live(Restarted())
    assert written == []  # nothing was shown for good
    live(TextDelta(text="One.\n\nTwo"))
    live(Restarted())
    assert "begins its answer again" in "".join(written)
    live(TextDelta(text="Three."))
    live.end("Three.")
    assert "Two" not in "".join(written)
    assert "".join(written).count("Three.") == 1


def test_of_a_long_unfinished_code_block_only_the_end_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    live = view(written)
    live.begin()
    live(TextDelta(text="Here it is:\n```python\n"))
    assert written == ["Here it is:\n\n"]
    for number in range(500):
        live(TextDelta(text=f"x = {number}\n"))
    drawn: list[str] = []

    def draw(self: LiveView, text: str) -> Markdown:
        drawn.append(text)
        return Markdown(text)

    monkeypatch.setattr(LiveView, "_markdown", draw)
    assert "x = 499" in live.render(10)
    assert len(drawn[0].splitlines()) == 11
    monkeypatch.undo()
    live.end("")
    assert "x = 0\n" in "".join(written)


def test_markdown_keeps_line_breaks_writes_addresses_and_has_no_blank_edges() -> None:
    written: list[str] = []
    code = "```python\nx = 1\n\n\ny = 2\n```"
    rest = "|a|b|\n|-|-|\n|1|2|\n\n1. one\n   - a\n2. two"
    view(written).end(f"# Title\n\nModel: demo\nTokens: 3, [docs](https://x.org)\n\n{code}\n\n{rest}")
    assert "".join(written).splitlines() == [
        "Title", "",
        "Model: demo", "Tokens: 3, docs (https://x.org)", "",
        "  x = 1", "", "", "  y = 2", "",
        "a  b", "────", "1  2", "",
        "1. one", "    • a", "2. two", "",
    ]  # fmt: skip


def test_no_text_has_a_background_that_a_light_terminal_has_not() -> None:
    for skin in ("auto", "light", "dark"):
        written: list[str] = []
        live = LiveView(write=written.append, width=lambda: 60, clean=str, skin=skin)
        live.end("Use `x`:\n\n```python\nx = 1\n```\n")
        styles = re.findall(r"\x1b\[([\d;]+)m", "".join(written))
        assert styles
        assert not [style for style in styles if re.search(r"\b(?:4[0-8]|10[0-7])\b", style)]


@pytest.mark.parametrize(
    ("result", "shown", "not_shown"),
    [
        (
            '{"output": "a\\nb\\nc\\nd\\n\\n", "error": null, "exit_code": 0}',
            ["a", "\n  d\n"],
            ["more", "exit code", "{"],
        ),
        ('{"output": "a\\nb\\nc\\nd\\ne", "error": null, "exit_code": 0}', ["c\n", "… 2 more lines"], ["  d"]),
        ('{"diff": "--- a/x\\n+++ b/x\\n@@ -1 +1 @@\\n-a\\n+b\\n c"}', ["\n  -a\n  +b\n   c"], ["--- a", "more"]),
        (
            '{"output": "--- FAIL: TestX\\n    x_test.go:5: bad\\nFAIL"}',
            ["--- FAIL: TestX\n      x_test.go:5: bad"],
            ["more"],
        ),
        ('{"matches": [{"path": "x", "line": 3, "text": "y"}], "shown": 1}', ["\n  x: 3: y\n  shown: 1"], ["{"]),
        ('{"output": "", "error": null, "exit_code": 0}', ["(no output)"], ["exit code"]),
        ('{"output": "boom", "exit_code": 2}', ["✗ terminal", "boom", "exit code 2"], ["●"]),
        ('{"error": "There is no file x"}', ["✗ terminal", "There is no file x"], ["●"]),
        (f'{{"error": "{"reason " * 12}end"}}', ["\n  reason", "end\n"], ["…"]),
        ('{"city": "Oslo", "degrees": 3}', ["\n  city: Oslo\n  degrees: 3\n"], ["{"]),
        (f'{{"output": "{"word " * 40}", "exit_code": 0}}', ["…\n"], ["\nword"]),
        ("plain words with hunter2", ["plain words with ***"], ["hunter2"]),
    ],
)
def test_a_result_is_folded_to_what_it_says(result: str, shown: list[str], not_shown: list[str]) -> None:
    written: list[str] = []
    live = view(written)
    call = ToolCall(id="1", name="terminal", arguments='{"command": "make all"}')
    live.begin()
    live(ToolStarted(call=call))
    assert "terminal make all (0 s)" in live.render(10)
    live(ToolFinished(call=call, result=tool_result(call, result), seconds=1.5))
    live(Usage(input_tokens=3, output_tokens=4))
    said = "".join(written)
    assert " terminal make all  1.5 s" in said
    assert all(words in said for words in shown), said
    assert not any(words in said for words in not_shown), said
    assert live.usage.total_tokens == 7


def test_nothing_that_is_shown_commands_the_terminal() -> None:
    written: list[str] = []
    live = view(written)
    live.begin()
    evil = "a\x1b]52;c;aGk=\x07b\x1b[2J\x9d0;x\x9c"
    call = ToolCall(id="1", name="file_read", arguments=json.dumps({"path": evil}))
    live(ToolStarted(call=call))
    live(TextDelta(text=evil))
    shown = live.render(10)
    live(ToolFinished(call=call, result=tool_result(call, json.dumps({"content": evil})), seconds=1))
    live.note(evil)
    live.end(evil)
    assert "ab" in shown
    assert not set(shown + "".join(written)) & {"\x1b", "\x07", "\x9d", "\x9c"}


def test_each_line_of_a_risky_command_is_indented() -> None:
    action = "rm x" + " " * 52 + "Where: nowhere"
    question = Question(tool="terminal", action=action, reasons=("it deletes x",), binding="")
    first, *rest = describe_question(question, width=60)
    assert (first, rest[-1]) == ("May I do this?", "Reason: it deletes x.")
    assert rest[:-1] == ["    rm x" + " " * 52, "    Where: nowhere"]


def test_completion_offers_commands_their_words_and_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.md").touch()

    def spec(name: str, hint: str = "") -> CommandSpec:
        return CommandSpec(name, "Session", f"Do {name}", lambda tx, call: CommandReply(""), hint)  # fmt: skip

    completer = ChatCompleter(
        commands=[spec("model", "[name]"), spec("memory", "[list|search WORDS|forget NAME|NAME]")],
        arguments=lambda name: ["gpt-x"] if name == "model" else [],
    )

    def offered(text: str) -> list[str]:
        return [one.text for one in completer.get_completions(Document(text), CompleteEvent())]

    assert offered("/m") == ["model", "memory"]
    assert offered("/memory ") == ["list", "search", "forget"]  # fixed words, no placeholders
    assert max(len(one.display_text) for one in completer.get_completions(Document("/"), CompleteEvent())) <= 28
    assert offered("/model ") == ["gpt-x"]
    assert offered("see @no") == ["tes.md"]
    assert offered("say /m") == offered("me@no") == []


def test_files_are_found_by_their_at_and_mail_addresses_are_not(tmp_path: Path) -> None:
    (tmp_path / "a b.txt").touch()
    (tmp_path / "c.txt").touch()
    text = f'see @"{tmp_path}/a b.txt", @{tmp_path}/c.txt, again @{tmp_path}/c.txt; not me@x.org, @nobody, @{tmp_path}'
    assert find_files(text) == [tmp_path / "a b.txt", tmp_path / "c.txt"]


def test_pastes_come_back_as_they_were() -> None:
    pastes = Pastes()
    long = "\n".join("x" * 11) + "\n"
    folded = f"see {pastes.fold(long)} and {pastes.fold('short')}"
    assert folded == "see [pasted text 1: 11 lines] and short"
    assert pastes.expand(folded) == f"see {long} and short"
