"""A conversation keeps the tools of MCP servers that it began with, through restarts of real servers and of the hub."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gateway.messages import SessionKey
from gateway.store import offered_tools, sessions
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.store.offered_tools import StoredOffers
from hermes_config.mcp import McpServer
from tests.tools.mcp.test_hub import LARGE, SMALL, offer, request_bytes, rough, use
from tools.approval.gate import NobodyToAsk
from tools.base import ToolContext
from tools.errors import ToolFailed
from tools.mcp.hub import McpHub

pytestmark = pytest.mark.timeout(120)


@asynccontextmanager
async def start(db: Database, *servers: McpServer) -> AsyncIterator[McpHub]:
    hub = McpHub({one.name: one for one in servers}, wait_seconds=100, offers=StoredOffers(db))
    async with hub.running():
        yield hub


@pytest.mark.parametrize("window", [LARGE, SMALL], ids=["each tool", "a list of names"])
async def test_an_old_conversation_keeps_its_tools_and_a_new_one_gets_those_of_today(db: Database, window: int) -> None:
    async with start(db, rough("r", "40"), rough("s", "2")) as hub:
        before = await offer(hub, "old", window)
    async with start(db, rough("r"), rough("s", "2")) as hub:  # the servers come back with other tools
        after = await offer(hub, "old", window)
        assert request_bytes(after) == request_bytes(before)
        assert request_bytes(await offer(hub, "new", window)) != request_bytes(before)
        assert (await use(after[-2], server="r", tool="echo", args_json='{"text": "x"}')) == "echo: x"
        if window == LARGE:
            [gone] = [tool for tool in after if tool.name == "mcp_r_ticket_tool_1"]
            with pytest.raises(ToolFailed, match="The MCP server r no longer offers ticket_tool_1"):
                await use(gone, text="x")
    async with start(db, rough("r")) as hub:  # with other servers in the settings it is offered anew
        assert "mcp_r_echo" in {tool.name for tool in await offer(hub, "old")}


async def test_an_old_tool_obeys_the_settings_and_the_warnings_of_today(db: Database) -> None:
    async with start(db, rough("r", "works")) as hub:
        await offer(hub, "old")
    assert "true" in await StoredOffers(db).find("old", "r")
    await db.write(lambda tx: tx.execute("UPDATE offered_tools SET tools = replace(tools, 'true', 'false')"))
    async with start(db, rough("r", deny=("ec*",))) as hub:
        named = {tool.name: tool for tool in await offer(hub, "old")}
        with pytest.raises(ToolFailed, match="The settings no longer let echo of the MCP server r be used"):
            await use(named["mcp_r_echo"], text="x")
        with pytest.raises(ToolFailed, match="r says that erase may destroy something"):
            await use(named["mcp_r_erase"], ToolContext(task_id="t", gate=NobodyToAsk()), text="x")


async def test_a_damaged_row_leaves_a_conversation_the_way_to_all_tools(db: Database) -> None:
    await db.write(lambda tx: tx.insert("offered_tools", session_id="old", servers="r", tools="{damaged"))
    async with start(db, rough("r")) as hub:
        found = await offer(hub, "old")
        assert [tool.name for tool in found] == ["mcp_call", "tool_search"]
        assert json.loads((await use(found[1], query="echo")).splitlines()[0])["tool"] == "echo"


def test_a_branch_is_offered_the_same(tx: Transaction) -> None:
    key = SessionKey(platform="cli", chat="c")
    session = sessions.open_current(tx, key)
    tx.insert("offered_tools", session_id=session.id, servers="r", tools="{}")
    copy = sessions.branch(tx, key, session, "Copy")
    assert offered_tools._read(tx, copy.id, "r") == "{}"
