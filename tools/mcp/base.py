"""Types that all of this package uses: the tools of servers, and how servers can fail."""

import ipaddress
import os
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from hermes_config.extras import install_line
from hermes_config.mcp import McpServer, UnsetVariable
from tools.backends.environment import child_environment
from tools.errors import ToolFailed


class McpProblem(Exception):
    """A server cannot be used now. The text is a clause for people: "it ended with exit code 1"."""


class ServerGone(McpProblem):
    """The connection has ended. A call that was under way may have had an effect."""


class Unauthorized(ServerGone):
    """The server does not accept our credentials, if we have any. Nothing was done."""


class NeedsLogin(Unauthorized):
    """Somebody must use `hermes mcp login`."""

    def __init__(self, server: str) -> None:
        super().__init__(f"it needs a login: hermes mcp login {server}")


class CallUnanswered(McpProblem):
    """A call was not answered in time."""


class ServerRefused(ToolFailed):
    """The server answered with an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTool:
    """A tool as its server describes it. All of it is the server's claim."""

    server: str
    name: str
    description: str = ""
    schema: Mapping[str, Any]
    reads_only: bool = False
    destroys: bool = False


def is_local(host: str) -> bool:
    """Return whether a host is this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def prepare(server: McpServer) -> McpServer:
    """Return the server with its variables replaced and its program found; raises McpProblem."""
    if find_spec("mcp") is None:
        raise McpProblem(f"the package mcp is not installed: {install_line('mcp')}")
    try:
        ready = server.expand()
    except UnsetVariable as error:
        raise McpProblem(str(error)) from error
    if ready.url:
        return ready
    try:
        name, *args = *shlex.split(ready.command), *ready.args
    except ValueError as error:
        raise McpProblem(f"its command cannot be split into words: {error}") from error
    path = ready.env.get("PATH") or child_environment()["PATH"]
    if (program := shutil.which(os.path.expanduser(name), path=path)) is None:
        raise McpProblem(f"the command {name} was not found. Install it, or correct `command`")
    return ready.model_copy(update={"command": os.path.abspath(program), "args": tuple(args)})
