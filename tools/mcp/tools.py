"""The tools of MCP servers as the agent's own: their names, and when they ask a human."""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from hermes_config.mcp import McpServer
from tools.approval.gate import NobodyNeedsToBeAsked, Question, bound_to
from tools.approval.taint import doubt_about_fetching, doubt_about_passing_on
from tools.approval.wrapper import needs_approval
from tools.arguments import parse_object
from tools.base import Tool, ToolContext, ToolOutput
from tools.content import Part
from tools.errors import ToolFailed
from tools.mcp.base import ServerTool
from tools.mcp.connection import ServerLink

if TYPE_CHECKING:
    from tools.mcp.sdk import McpSession

MAX_NAME_CHARS = 64  # of a function, for the APIs of models
_MARK_CHARS = 6
_MAX_NAMED, _SHOWN_NAME_CHARS = 3, 80
_MAX_SHOWN_CHARS = 8_000


def is_chosen(server: McpServer, tool: str) -> bool:
    """Return whether the settings let a tool be offered."""
    allowed = not server.allow or any(fnmatchcase(tool, pattern) for pattern in server.allow)
    return allowed and not any(fnmatchcase(tool, pattern) for pattern in server.deny)


def name_tools(tools: Iterable[ServerTool]) -> dict[str, ServerTool]:
    """Return the tools by names that every model's API takes. One whose name is too long or taken gets a mark."""
    named: dict[str, ServerTool] = {}
    for tool in tools:
        name = re.sub(r"[^A-Za-z0-9_-]", "_", f"mcp_{tool.server}_{tool.name}")
        if len(name) > MAX_NAME_CHARS or name in named:
            mark = hashlib.sha256(f"{tool.server}\0{tool.name}".encode()).hexdigest()[:_MARK_CHARS]
            name = f"{name[: MAX_NAME_CHARS - _MARK_CHARS - 1]}_{mark}"
        named.setdefault(name, tool)  # listed twice by its server
    return named


def list_renamed(named: dict[str, ServerTool]) -> list[str]:
    """Return what to tell the operator about names that could not be kept."""
    return [
        f"{tool.name[:_SHOWN_NAME_CHARS]} is called {name}: its name is too long, taken, or has letters models refuse"
        for name, tool in named.items()
        if name != f"mcp_{tool.server}_{tool.name}"
    ][:_MAX_NAMED]


def build_tool(name: str, tool: ServerTool, find: Callable[[str], ServerLink]) -> Tool:
    """Build the agent's tool for a tool of a server, which `find` returns; it raises ToolFailed when that is gone."""

    async def run(arguments: str, context: ToolContext) -> ToolOutput:
        given, link = parse_object(arguments), find(tool.server)
        if not is_chosen(link.server, tool.name):
            raise ToolFailed(f"The settings no longer let {tool.name} of the MCP server {tool.server} be used.")

        async def call(session: "McpSession") -> Sequence[Part]:
            if not any(one.name == tool.name for one in link.tools):  # known only once it is connected
                raise ToolFailed(
                    f"The MCP server {tool.server} no longer offers {tool.name}. Use tool_search to see what it does."
                )
            return await session.call(tool.name, given)

        return await link.ask(tool.name, call)

    async def about(arguments: dict[str, object], context: ToolContext) -> Question | None:
        link = find(tool.server)
        now = next((one for one in link.tools if one.name == tool.name), tool)
        # The description may be an old one; the more dangerous claim counts.
        harm = replace(tool, destroys=tool.destroys or now.destroys, reads_only=tool.reads_only and now.reads_only)
        return ask_about(name, harm, link.server, arguments, context)

    built = Tool(
        name=name,
        toolset=f"mcp-{tool.server}",
        description=tool.description or f"{tool.name} of the MCP server {tool.server}.",
        schema=tool.schema,
        run=run,
        for_guests=False,
        brings=f"mcp:{tool.server}",
    )
    return needs_approval(built, about)


def ask_about(
    name: str, tool: ServerTool, server: McpServer, arguments: dict[str, object], context: ToolContext
) -> Question | None:
    """Return the question about a call; None when nobody needs to be asked."""
    reasons: list[str] = []
    rules: list[str] = []
    if any(fnmatchcase(tool.name, pattern) for pattern in server.asks):
        reasons.append(f"the settings ask before {tool.name} of {server.name}")
    elif tool.destroys:
        reasons.append(f"{server.name} says that {tool.name} may destroy something")
    if reasons:
        rules.append(f"mcp-call {server.name}/{tool.name}")
    texts, heard = list(_texts(arguments)), context.heard()
    fetching = doubt_about_fetching([text for text in texts if re.match("https?://", text)], heard)
    reasons += fetching.reasons
    rules += fetching.rules
    besides = f"mcp_{server.name}_"
    if not tool.reads_only and (doubt := doubt_about_passing_on(texts, server.name, heard, besides=besides)).reasons:
        reasons += doubt.reasons
        rules.append(f"mcp-outside {server.name}/{tool.name}")
    if not reasons:
        return None
    action = f"{name} {json.dumps(arguments, ensure_ascii=False, indent=2)}"
    if len(action) > _MAX_SHOWN_CHARS and not isinstance(context.gate, NobodyNeedsToBeAsked):
        raise ToolFailed(f"A human must read all of this call, and it has more than {_MAX_SHOWN_CHARS:,} characters.")
    return Question(
        tool=name,
        action=action,
        where=f"on the MCP server {server.name}",
        reasons=tuple(reasons),
        rules=tuple(rules) if len(rules) >= len(reasons) else (),
        binding=bound_to(name, arguments),
    )


def _texts(node: Any) -> Iterator[str]:
    match node:
        case str():
            yield node
        case dict():
            for value in node.values():
                yield from _texts(value)
        case list():
            for item in node:
                yield from _texts(item)
