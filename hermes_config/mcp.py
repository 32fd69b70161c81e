"""Entries of `mcp.servers:` in the settings. Each is kept as JSON text, like the entries of `cron:`."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from hermes_config import environment
from hermes_config.jobs import write_as_text

SERVER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
_EXAMPLE = "{time: {command: uvx mcp-server-time}}"
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


class McpServer(BaseModel):
    """An MCP server as the settings describe it: a program (`command`) or an address (`url`)."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    url: str = ""
    headers: dict[str, str] = {}
    timeout: float = Field(60.0, gt=0, le=3600)
    allow: tuple[str, ...] = ()  # tools to offer, with * for any letters; empty: all
    deny: tuple[str, ...] = ()
    asks: tuple[str, ...] = ()  # tools that ask an owner before every call
    members: bool = False  # offered to members, too
    enabled: bool = True

    @property
    def has_own_login(self) -> bool:
        """Whether its entry says how to log in; `hermes mcp login` is then of no use."""
        return any(name.casefold() == "authorization" for name in self.headers)

    def expand(self) -> "McpServer":
        """Return it with every `${VAR}` replaced; raises UnsetVariable."""
        return self.model_copy(
            update={
                "command": _expand(self.command),
                "args": tuple(map(_expand, self.args)),
                "env": {name: _expand(value) for name, value in self.env.items()},
                "url": _expand(self.url),
                "headers": {name: _expand(value) for name, value in self.headers.items()},
            }
        )

    def secrets(self) -> Iterator[str]:
        """Yield the values of the variables that it names."""
        named = (self.command, *self.args, *self.env.values(), self.url, *self.headers.values())
        for name, _ in _VARIABLE.findall(" ".join(named)):
            if len(value := environment.lookup(name)) >= 8:
                yield value


class UnsetVariable(ValueError):
    """A `${VAR}` has no value. The text says what to do."""


def read_servers(entries: tuple[str, ...]) -> dict[str, McpServer]:
    """Return the servers that are switched on, by name."""
    servers = [McpServer.model_validate_json(entry) for entry in entries]
    return {server.name: server for server in servers if server.enabled}


def write_entry(server: McpServer) -> dict[str, Any]:
    """Return what config.yaml says of a server below its name."""
    return server.model_dump(mode="json", exclude_defaults=True, exclude={"name"})


def check_entry(entry: str) -> str:
    """Return the entry; raises ValueError, naming the server and what is wrong with it."""
    try:
        given = json.loads(entry)
    except ValueError:
        given = None
    if not isinstance(given, dict) or not isinstance(name := given.get("name"), str):
        raise ValueError(f"{entry[:60]!r} is not a server; write {_EXAMPLE}")
    if not SERVER_NAME.fullmatch(name):
        raise ValueError(f"{name[:60]!r} is not a name for a server; use letters, digits, - and _, such as my-files")
    try:
        server = McpServer.model_validate(given)
    except ValidationError as error:
        problems = (f"{'.'.join(map(str, one['loc']))} ({one['msg']})" for one in error.errors(include_input=False))
        known = ", ".join(name for name in McpServer.model_fields if name != "name")
        raise ValueError(f"the server {name!r} has wrong keys: {'; '.join(problems)}; there are {known}") from error
    if bool(server.command) == bool(server.url):
        raise ValueError(f"the server {name!r} needs either a command or a url, such as {_EXAMPLE}")
    return entry


def _list_servers(value: object) -> object:
    """Turn a mapping of servers, perhaps as JSON text, into entries with their names."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return value
    if isinstance(value, dict):
        value = [{"name": str(name), **(one if isinstance(one, dict) else {})} for name, one in value.items()]
    return write_as_text(value)


def _expand(text: str) -> str:
    def replace(found: "re.Match[str]") -> str:
        value = environment.lookup(found[1]) or found[2]
        if value is None:
            raise UnsetVariable(f"{found[1]} is not set. Put {found[1]}=… into .env, then /reload-mcp")
        return value

    return _VARIABLE.sub(replace, text)


ReadServers = Callable[[], Mapping[str, McpServer]]
"""Reads the settings again; raises ConfigError."""

McpServers = Annotated[tuple[Annotated[str, AfterValidator(check_entry)], ...], BeforeValidator(_list_servers)]
