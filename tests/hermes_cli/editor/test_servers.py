"""MCP servers that an editor passes along, and the list of conversations, as an editor uses them."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import acp
import pytest
from acp import schema

from hermes_cli.editor.servers import EditorServer, read_servers
from playground.model_script import say
from playground.model_server import ModelServer
from tests.hermes_cli.editor.desk import PATIENCE_SECONDS, Editor, call, open_desk
from tests.hermes_cli.running import hermes
from tests.journeys.stage import until
from tests.journeys.test_mcp import ROUGH, find_processes
from tests.tools.mcp.locked_server import locked

# Each starts `hermes acp` anew, as an editor does.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(420)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "proj").mkdir()
    return tmp_path / "proj"


def with_shared_server(home: Path, marked: Path) -> None:
    config = json.loads((home / "config.yaml").read_text())
    servers = {"rough": {"command": sys.executable, "args": [str(ROUGH), "works", str(marked)]}}
    (home / "config.yaml").write_text(json.dumps(config | {"mcp": {"servers": servers, "wait_seconds": 100}}))


def rough(name: str, marked: Path, *env: tuple[str, str], mode: str = "works") -> schema.McpServerStdio:
    variables = [schema.EnvVariable(name=one, value=value) for one, value in env]
    return schema.McpServerStdio(name=name, command=sys.executable, args=[str(ROUGH), mode, str(marked)], env=variables)


def offered(body: dict[str, Any]) -> set[str]:
    return {one["function"]["name"] for one in body["tools"]}


async def test_the_editors_servers_live_as_long_as_their_session(
    model: ModelServer, home: Path, folder: Path, tmp_path: Path
) -> None:
    shared, own = tmp_path / "shared", tmp_path / "own folder"
    with_shared_server(home, shared)
    editor = Editor()
    async with locked() as vault, open_desk(editor, tmp_path / "errors.txt") as desk:
        token = vault._issue("editor", vault.url).access_token
        remote = schema.HttpMcpServer(
            type="http",
            name="vault",
            url=vault.url,
            headers=[schema.HttpHeader(name="Authorization", value=f"Bearer {token}")],
        )
        # The name is taken by a server in the settings, and the variable is none of ours.
        given = [rough("rough", own, ("PASSWORD", "${NOT_OURS}")), remote]
        async with asyncio.timeout(PATIENCE_SECONDS):
            session = (await desk.agent.new_session(cwd=str(folder), mcp_servers=given)).session_id
            plain = (await desk.agent.new_session(cwd=str(folder), mcp_servers=[])).session_id
        model.script(
            call("mcp_rough-2_echo", "c1", text="from the editor's"),
            call("mcp_vault_whisper", "c2", text="from the remote one"),
            call("mcp_rough_echo", "c3", text="from the shared one"),
            say(f"Done with {token}."),
            say("Plain."),
        )
        await desk.ask(session, "echo: from the editor's, from the remote one, from the shared one")
        results = [one["content"] for one in model.bodies[-1]["messages"] if one["role"] == "tool"]
        assert "echo: from the editor's" in results[0]
        assert "from the remote one: ['access-" in results[1]
        assert "echo: from the shared one" in results[2]
        assert "".join(editor.texts()) == "Done with [hidden]."
        assert token not in str(editor.shown)
        first = model.bodies[-1]["tools"]
        await desk.ask(plain, "hello")
        assert {name for name in offered(model.bodies[-1]) if name.endswith("_echo")} == {"mcp_rough_echo"}
        assert (len(find_processes(shared)), len(find_processes(own))) == (1, 1)
        await desk.ask(session, "/reload-mcp")
        assert "rough: 15 tools\nrough-2: 15 tools\nvault: 2 tools" in editor.texts()[-1]
        async with asyncio.timeout(PATIENCE_SECONDS):
            await desk.agent.close_session(session_id=session)
        assert (len(find_processes(shared)), len(find_processes(own))) == (1, 0)
        with pytest.raises(acp.RequestError, match="There is no conversation"):
            await desk.ask(session, "are you there?")
        model.script(say("Again."))
        async with asyncio.timeout(PATIENCE_SECONDS):
            await desk.agent.load_session(cwd=str(folder), session_id=session, mcp_servers=given)
        await desk.ask(session, "and now?")
        assert model.bodies[-1]["tools"] == first
        async with asyncio.timeout(PATIENCE_SECONDS):  # opened again without them, it ends them
            await desk.agent.resume_session(cwd=str(folder), session_id=session, mcp_servers=[])
        assert find_processes(own) == []
        async with asyncio.timeout(PATIENCE_SECONDS):
            await desk.agent.load_session(cwd=str(folder), session_id=session, mcp_servers=given)
        await until(lambda: len(find_processes(own)) == 1)
    assert find_processes(shared) + find_processes(own) == []
    assert (tmp_path / "errors.txt").read_text() == ""


async def test_a_session_that_is_opened_twice_at_once_has_its_servers_once(
    model: ModelServer, folder: Path, tmp_path: Path
) -> None:
    own = tmp_path / "own"
    model.script(say("Hello."))
    async with open_desk(Editor(), tmp_path / "errors.txt") as desk:
        session = (await desk.agent.new_session(cwd=str(folder), mcp_servers=[])).session_id
        await desk.ask(session, "hello")
        opening = (
            desk.agent.load_session(cwd=str(folder), session_id=session, mcp_servers=[rough("own", own)])
            for _ in range(3)
        )
        async with asyncio.timeout(PATIENCE_SECONDS):
            await asyncio.gather(*opening)
        await until(lambda: len(find_processes(own)) == 1)
        async with asyncio.timeout(PATIENCE_SECONDS):
            await desk.agent.close_session(session_id=session)
        assert find_processes(own) == []


async def test_a_turn_ends_with_its_session(model: ModelServer, folder: Path, tmp_path: Path) -> None:
    editor = Editor()
    model.script(call("terminal", "c1", command="sleep 600"))
    async with open_desk(editor, tmp_path / "errors.txt") as desk:
        session = (await desk.agent.new_session(cwd=str(folder), mcp_servers=[])).session_id
        asking = asyncio.create_task(desk.ask(session, "wait"))
        await editor.until_status("c1", "in_progress")
        async with asyncio.timeout(PATIENCE_SECONDS):
            await desk.agent.close_session(session_id=session)
        assert await asking == "cancelled"


async def test_conversations_are_listed_with_their_folders(model: ModelServer, folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    async with open_desk(Editor(), tmp_path / "errors.txt") as desk:
        sessions = []
        for number, place in enumerate([folder, other, folder]):
            session = (await desk.agent.new_session(cwd=f"{place}/", mcp_servers=[])).session_id
            model.script(say("Yes."))
            await desk.ask(session, f"words {number}")
            sessions.append(session)
        async with asyncio.timeout(PATIENCE_SECONDS):
            listed = (await desk.agent.list_sessions()).sessions
            here = await desk.agent.list_sessions(cwd=str(folder))
            assert (await desk.agent.list_sessions(cwd="/nowhere")).sessions == []
            assert (await desk.agent.list_sessions(cursor="50")).sessions == []
            with pytest.raises(acp.RequestError, match="There is no such page"):
                await desk.agent.list_sessions(cursor="x")
    assert [(one.session_id, one.cwd, one.title) for one in listed] == [
        (sessions[2], str(folder), "words 2"),
        (sessions[1], str(other), "words 1"),
        (sessions[0], str(folder), "words 0"),
    ]
    assert [one.session_id for one in here.sessions] == [sessions[2], sessions[0]]
    assert here.next_cursor is None
    assert str(listed[0].updated_at).endswith("+00:00")
    assert "words 2" in hermes("sessions", "list", "--platform", "cli").stdout


def test_servers_are_named_and_those_that_cannot_be_reached_are_refused() -> None:
    given: list[Any] = [
        schema.McpServerStdio(name="My Files!", command="/opt/my files/server", args=["$HOME"], env=[]),
        schema.McpServerStdio(name="my files", command="x", args=[], env=[]),
        schema.McpServerStdio(name="…", command="x", args=[], env=[]),
        schema.HttpMcpServer(type="http", name="my-files", url="http://127.0.0.1/${X}", headers=[]),
    ]
    servers = read_servers(given, {"server"})
    assert list(servers) == ["My-Files", "my-files", "server-2", "my-files-2"]
    assert servers["My-Files"].expand().command == "'/opt/my files/server'"
    assert servers["my-files-2"].expand().url == "http://127.0.0.1/${X}"
    with pytest.raises(acp.RequestError, match="old is reached over sse"):
        read_servers([schema.SseMcpServer(type="sse", name="old", url="http://127.0.0.1", headers=[])], ())


def test_secrets_are_told_from_settings_by_their_names() -> None:
    env = {
        "DB_PASS": "hunter-two",
        "DB_PWD": "hunter-three",
        "GITHUB_PAT": "patience-4",
        "KEY_PASSPHRASE": "open-sesame",
        "USE_KEYCHAIN": "true",
        "PWD": "/home/ann/project",
        "PATH": "/usr/local/bin",
    }
    headers = {"Cookie": "id=chocolate-chip", "Authorization": "Basic YW5uOmFiYw==", "Accept": "text/event-stream"}
    server = EditorServer(name="x", env=env, headers=headers)
    assert set(server.secrets()) == {
        *("hunter-two", "hunter-three", "patience-4", "open-sesame"),
        *("id=chocolate-chip", "Basic YW5uOmFiYw==", "YW5uOmFiYw=="),
    }
