"""`hermes acp`, as an editor uses it."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import acp
import pytest

from playground.model_script import ModelRefusal, say
from playground.model_server import ModelServer
from tests.hermes_cli.editor.desk import PATIENCE_SECONDS, ROOT, Editor, call, open_desk, write_config
from tests.hermes_cli.running import hermes

# Each starts one or two processes anew, as an editor does.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(420)]

HOOK = ".git/hooks/pre-commit"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "proj" / ".git" / "hooks").mkdir(parents=True)
    return tmp_path / "proj"


@pytest.fixture
def errors(tmp_path: Path) -> Path:
    return tmp_path / "errors.txt"


async def test_an_answer_and_thoughts_are_streamed_and_files_changed_in_the_editors_folder(
    model: ModelServer, folder: Path, errors: Path
) -> None:
    (folder / "notes.txt").write_text("milk\neggs\n")
    editor = Editor()
    model.script(
        call("file_patch", "c1", path="notes.txt", old_string="eggs", new_string="bread"),
        say("Bread ", "is ", "there.", reasoning="They want bread."),
        ModelRefusal(status=401, message="no"),
    )
    async with open_desk(editor, errors) as desk:
        session = (await desk.agent.new_session(cwd=str(folder))).session_id
        async with asyncio.timeout(PATIENCE_SECONDS):
            link = acp.resource_link_block("notes", f"{(folder / 'notes.txt').as_uri()}#L2")
            answer = await desk.agent.prompt(session_id=session, prompt=[acp.text_block("bread in "), link])
        assert answer.stop_reason == "end_turn"
        assert f"bread in `{folder}/notes.txt` (L2)" in str(model.bodies[0]["messages"])
        assert "code editor" in str(model.bodies[0]["messages"])
        begun, running, done = editor.calls("c1")
        assert (begun.session_update, begun.kind, begun.status) == ("tool_call", "edit", "pending")
        assert [one.path for one in begun.locations] == [f"{folder}/notes.txt"]
        diff = begun.content[0]
        assert (diff.path, diff.old_text, diff.new_text) == (f"{folder}/notes.txt", "milk\neggs\n", "milk\nbread\n")
        assert (running.status, done.status, done.content) == ("in_progress", "completed", [diff])
        assert (folder / "notes.txt").read_text() == "milk\nbread\n"
        assert (editor.texts(), editor.texts("agent_thought_chunk")) == (
            ["Bread ", "is ", "there."],
            ["They wan", "t bread."],
        )
        assert await desk.ask(session, "/status") == "end_turn"
        assert "Model: playground" in editor.texts()[-1]
        assert any(one.session_update == "available_commands_update" for one in editor.shown)
        assert await desk.ask(session, "and now?") == "end_turn"
        assert "does not accept the key" in editor.texts()[-1]
        with pytest.raises(acp.RequestError, match="There is no folder /nowhere"):
            await desk.agent.new_session(cwd="/nowhere")
    assert errors.read_text() == ""


async def test_a_risky_edit_waits_for_permission(model: ModelServer, folder: Path, errors: Path) -> None:
    editor = Editor("deny", "once", "session")
    for number in range(2):
        model.script(call("file_write", f"c{number}", path=HOOK, content=f"echo {number}\n"), say("Well."))
    for number in range(2, 4):
        model.script(call("terminal", f"c{number}", command="rm -r old"), say("Well."))
    async with open_desk(editor, errors) as desk:
        session = (await desk.agent.new_session(cwd=str(folder))).session_id
        await desk.ask(session, "write the hook")
        assert not (folder / HOOK).exists()
        await desk.ask(session, "do write it")
        assert (folder / HOOK).read_text() == "echo 1\n"
        for _ in range(2):  # the second time it is covered by the yes for the conversation
            (folder / "old").mkdir()
            await desk.ask(session, "clean up")
            assert not (folder / "old").exists()
    assert [one.status for one in editor.calls("c0")] == ["pending", "in_progress", "failed"]
    assert "A human said no" in str(editor.calls("c0")[-1].content)
    assert [shown.tool_call_id for shown, _ in editor.asked] == ["c0", "c1", "c2"]
    shown, options = editor.asked[0]
    assert [one.kind for one in options] == ["allow_once", "reject_once"]  # no rule could cover such files
    assert [one.kind for one in editor.asked[2][1]] == ["allow_once", "allow_always", "allow_always", "reject_once"]
    assert (shown.content[0].new_text, shown.content[0].old_text) == ("echo 0\n", None)  # type: ignore[index]
    assert "is read or run by itself later" in str(shown.content)
    assert errors.read_text() == ""


@pytest.mark.parametrize(
    ("answer", "words"), [(None, "Nobody answered within 1 s"), ("", "This editor cannot ask for permission")]
)
async def test_an_editor_without_dialogs_is_noticed_and_not_asked_again(
    model: ModelServer, folder: Path, errors: Path, home: Path, answer: str | None, words: str
) -> None:
    write_config(model, home, wait_seconds=1)
    editor = Editor(answer)
    for number in range(2):
        model.script(call("file_write", f"c{number}", path=HOOK, content="echo\n"), say("Well."))
    async with open_desk(editor, errors) as desk:
        session = (await desk.agent.new_session(cwd=str(folder))).session_id
        for _ in range(2):
            assert await desk.ask(session, "write the hook") == "end_turn"
    assert not (folder / HOOK).exists()
    assert len(editor.asked) == 1
    [told] = [text for text in editor.texts() if words in text]
    assert "I will not ask again in this conversation" in told


async def test_a_cancelled_turn_ends_its_command_and_the_conversation_goes_on(
    model: ModelServer, folder: Path, errors: Path
) -> None:
    editor = Editor(None)
    model.script(call("terminal", "c1", command="sleep 600"), call("file_write", "c2", path=HOOK, content="echo\n"))
    async with open_desk(editor, errors) as desk:
        session = (await desk.agent.new_session(cwd=str(folder))).session_id
        for wanted in ("in_progress", "pending"):  # while a command runs, and while a question stands
            call_id = "c1" if wanted == "in_progress" else "c2"
            asking = asyncio.create_task(desk.ask(session, "go"))
            await editor.until_status(call_id, wanted)
            with pytest.raises(acp.RequestError, match="still being written"):
                await desk.ask(session, "and?")
            await desk.agent.cancel(session_id=session)
            assert await asking == "cancelled"
        model.script(say("Here."))
        assert await desk.ask(session, "are you there?") == "end_turn"
        assert editor.texts()[-1] == "Here."
    assert errors.read_text() == ""


@pytest.mark.parametrize("end", ["closed", "kill -9"])
async def test_a_conversation_goes_on_after_its_process_ended(
    model: ModelServer, folder: Path, errors: Path, end: str
) -> None:
    editor = Editor()
    model.script(
        say("Hello Ann."),
        call("terminal", "c1", command="echo made >> made.txt"),
        call("terminal", "c2", command="echo more >> made.txt; sleep 600"),
    )
    async with open_desk(editor, errors) as desk:
        session = (await desk.agent.new_session(cwd=str(folder))).session_id
        await desk.ask(session, "I am Ann")
        asking = asyncio.create_task(desk.ask(session, "make it"))
        await editor.until_status("c2", "in_progress")
        if end == "kill -9":
            os.kill(desk.process.pid, signal.SIGKILL)
            await desk.process.wait()
        else:
            desk.process.stdin.close()  # type: ignore[union-attr]
        with pytest.raises((ConnectionError, acp.RequestError)):
            await asking
    again = Editor()
    model.script(say("You are Ann."))
    async with open_desk(again, errors) as desk:
        with pytest.raises(acp.RequestError, match="There is no conversation"):
            await desk.agent.load_session(cwd=str(folder), session_id="unknown")
        await desk.agent.load_session(cwd=str(folder), session_id=session)
        assert again.texts("user_message_chunk") == ["I am Ann", "make it"]
        assert again.texts()[0] == "Hello Ann."
        assert [one.status for one in again.calls("c1")] == ["pending", "completed"]
        assert again.calls("c2")
        await desk.agent.resume_session(cwd=str(folder), session_id=session)
        assert await desk.ask(session, "who am I?") == "end_turn"
        assert again.texts()[-1] == "You are Ann."
    assert "Hello Ann." in str(model.bodies[-1]["messages"])
    assert [one["tool_call_id"] for one in model.bodies[-1]["messages"] if one["role"] == "tool"] == ["c1", "c2"]
    assert "I am Ann" in hermes("sessions", "list", "--platform", "cli").stdout


def test_it_is_started_by_editors_and_names_the_missing_package(tmp_path: Path) -> None:
    run = hermes("acp", typed="x")
    assert (run.returncode, run.stdout) == (2, "")
    hidden = "import sys; sys.modules['acp'] = None; from hermes_cli.main import main; sys.argv[0] = 'hermes'; main()"
    missing = subprocess.run(
        [sys.executable, "-c", hidden, "acp"], stdin=subprocess.PIPE, capture_output=True, text=True, cwd=ROOT
    )
    assert (missing.returncode, missing.stdout) == (1, "")
    assert missing.stderr.count("\n") == 1
    assert "pip install 'hermes-gateway[acp]'" in missing.stderr
