"""The MCP servers that an editor has configured, as Hermes names and starts them."""

import re
import shlex
from collections.abc import Collection, Iterator, Sequence
from itertools import count

from acp import RequestError, schema

from hermes_config.mcp import McpServer

Given = schema.HttpMcpServer | schema.SseMcpServer | schema.AcpMcpServer | schema.McpServerStdio

_MAX_NAME_CHARS = 30
_SECRET_NAME = re.compile(r"TOKEN|KEY|SECRET|PASS|[_-]P(?:WD|AT)$|CREDENTIAL|AUTH|COOKIE|SESSION", re.I)
_SHORTEST_CHARS = 8  # as for servers in the settings: hiding every "true" would spoil what the editor shows


class EditorServer(McpServer):
    """A server as an editor describes it: what looks like a variable is meant literally."""

    @property
    def has_own_login(self) -> bool:
        return True  # none of ours is for a server that is not in the settings

    def expand(self) -> McpServer:
        return self

    def secrets(self) -> Iterator[str]:
        for name, value in (*self.env.items(), *self.headers.items()):
            if _SECRET_NAME.search(name):
                forms = (value, value.rpartition(" ")[2])  # without "Bearer"
                yield from (one for one in forms if len(one) >= _SHORTEST_CHARS)


def read_servers(given: Sequence[Given], taken: Collection[str]) -> dict[str, McpServer]:
    """Return the servers by names that are not taken; raises RequestError for one that cannot be reached at all."""
    servers: dict[str, McpServer] = {}
    for one in given:
        name = _choose_name(one.name, {*taken, *servers})
        match one:
            case schema.McpServerStdio():
                env = {variable.name: variable.value for variable in one.env}
                # One text would be split as a shell does it.
                command = shlex.quote(one.command)
                servers[name] = EditorServer(name=name, command=command, args=tuple(one.args), env=env)
            case schema.HttpMcpServer():
                headers = {header.name: header.value for header in one.headers}
                servers[name] = EditorServer(name=name, url=one.url, headers=headers)
            case _:
                raise RequestError(
                    -32602,
                    f"The MCP server {one.name} is reached over {one.type}. Hermes starts programs or uses HTTP.",
                )
    return servers


def _choose_name(given: str, taken: Collection[str]) -> str:
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", given).strip("-_")[:_MAX_NAME_CHARS] or "server"
    numbered = (f"{name}-{number}" for number in count(2))
    return name if name not in taken else next(one for one in numbered if one not in taken)
