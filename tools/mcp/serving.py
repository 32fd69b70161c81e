"""Serve functions to an MCP client over stdin and stdout."""

import functools
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

Function = Callable[..., Awaitable[Any]]
"""Its docstring and the descriptions of its parameters are read by models."""


async def serve_functions(name: str, instructions: str, functions: Sequence[Function]) -> None:
    """Serve until the client closes the connection. What a function raises is told to the client."""
    server = MCPServer(name, instructions=instructions, log_level="ERROR")
    for function in functions:
        server.tool(description=" ".join((function.__doc__ or "").split()))(_explain(function))
    await server.run_stdio_async()


def _explain(function: Function) -> Function:
    @functools.wraps(function)
    async def explained(*given: Any, **named: Any) -> Any:
        try:
            return await function(*given, **named)
        except Exception as error:
            raise ToolError(str(error)) from error

    return explained
