"""Toolsets: named sets of tools that can be switched on and off, and may include other sets.

A set holds the tools that name it, and those of the sets it includes. A set that only a drop-in tool names exists too.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches

from hermes_config.ids import OTHER_PLACES
from hermes_config.platforms import PLATFORMS
from hermes_config.settings import AgentSettings
from tools.base import Tool
from tools.mcp.hub import McpHub
from tools.registry import Registry, why_unavailable


class ToolsetError(ValueError):
    """The settings name toolsets that do not exist. The text is for the operator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolset:
    """A set of tools, as the operator sees it."""

    description: str
    includes: tuple[str, ...] = ()


TOOLSETS: Mapping[str, Toolset] = {
    "clock": Toolset(description="date and time in any time zone"),
    "todo": Toolset(description="a task list for each conversation"),
    "memory": Toolset(description="lasting facts about the person or the group"),
    "skills": Toolset(description="instructions for kinds of tasks, loaded when they are needed"),
    "file": Toolset(description="read, write, search and patch files"),
    "terminal": Toolset(description="run shell commands, in the foreground or background"),
    "web": Toolset(description="search the web and read pages"),
    "browser": Toolset(description="use web pages: click, fill in forms, download"),
    "vision": Toolset(description="look at pictures"),
    "image": Toolset(description="make pictures"),
    "speech": Toolset(description="voice messages and transcripts"),
    "creative": Toolset(description="pictures and speech", includes=("vision", "image", "speech")),
    "session": Toolset(description="search earlier conversations"),
    "cron": Toolset(description="schedule prompts and reminders"),
    "messaging": Toolset(description="send messages to other chats, each after approval"),
    "mcp": Toolset(description="what the MCP servers in the settings offer"),
    "delegate": Toolset(description="have tasks done by agents of their own, several at once"),
    "moa": Toolset(description="ask several models at once"),
    "code": Toolset(description="run Python scripts that call the other tools"),
    "core": Toolset(
        description="the default tools", includes=("clock", "terminal", "file", "todo", "memory", "skills", "cron")
    ),
}


TOOLSET_SETTINGS = "agent.enabled_toolsets, agent.disabled_toolsets or agent.platform_toolsets"


OfferTools = Callable[[str, tuple[str, ...], str, bool, int], Awaitable[Sequence[Tool]]]
"""Returns the tools of a conversation; the arguments are those of `ToolChoice.offer`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolChoice:
    """The tools of an installation, and which of them each platform and each conversation is offered.

    Each platform has a toolset of its own, `hermes-` and its name: the tools offered there unless a conversation has
    chosen others.
    """

    registry: Registry
    enabled: tuple[str, ...] = ("core",)
    disabled: tuple[str, ...] = ()
    by_platform: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    handed: Mapping[str, Tool] = field(default_factory=dict)  # tools with their stores take the place of bare ones
    wrap: Callable[[Tool], Tool] = lambda tool: tool  # around every tool, such as a hook that may object
    mcp: McpHub = field(default_factory=lambda: McpHub({}))
    _selected: dict[tuple[str, tuple[str, ...]], list[Tool]] = field(default_factory=dict, init=False, repr=False)

    @property
    def toolsets(self) -> Mapping[str, Toolset]:
        own = {
            f"hermes-{name}": Toolset(description=f"the tools offered on {name}", includes=self.enabled_on(name))
            for name in (*PLATFORMS, *OTHER_PLACES)
        }
        servers = {
            f"mcp-{name}": Toolset(description=f"what the MCP server {name} offers") for name in self.mcp.servers
        }
        known = _known(self.registry, TOOLSETS) | own
        if not servers:
            return known
        core = replace(known["core"], includes=(*known["core"].includes, "mcp"))
        return known | servers | {"mcp": replace(known["mcp"], includes=tuple(servers)), "core": core}

    def enabled_on(self, platform: str) -> tuple[str, ...]:
        return self.by_platform.get(platform, self.enabled)

    def expand(self, names: Iterable[str]) -> set[str]:
        """Return the named sets and all that they include, leaving out names that no longer exist."""
        return resolve((name for name in names if name in self.toolsets), self.toolsets)

    def leaves(self, names: Iterable[str]) -> set[str]:
        """Return the sets with tools of their own among the named ones and those that they include."""
        return {name for name in self.expand(names) if not self.toolsets[name].includes}

    def select(self, platform: str, chosen: tuple[str, ...] = ()) -> list[Tool]:
        """Return the tools on a platform, or those of the sets that a conversation has chosen; raises ToolsetError."""
        wanted = platform, chosen
        if wanted not in self._selected:
            reasons = self.why_not(platform, chosen)
            on = [tool for tool in self.registry if not reasons[tool.name]]
            self._selected[wanted] = [self.wrap(self.handed.get(tool.name, tool)) for tool in on]
        return self._selected[wanted]

    def servers_on(self, platform: str, chosen: tuple[str, ...] = ()) -> list[str]:
        """Return the MCP servers whose tools a platform or a conversation is offered."""
        on = self.expand(chosen or self.enabled_on(platform)) - self.expand(self.disabled)
        return [name for name in self.mcp.servers if f"mcp-{name}" in on]

    async def offer(
        self, platform: str, chosen: tuple[str, ...], conversation: str, is_owner: bool, window_tokens: int
    ) -> list[Tool]:
        """Return the tools of a conversation, those of the MCP servers included."""
        on = self.servers_on(platform, chosen) if self.mcp.servers else ()
        base = self.select(platform, chosen)
        return await self.mcp.offer(base, on, conversation, is_owner=is_owner, window_tokens=window_tokens)

    def why_not(self, platform: str, chosen: tuple[str, ...] = ()) -> dict[str, str]:
        enabled = self.expand(chosen) if chosen else self.enabled_on(platform)
        tools = [self.handed.get(tool.name, tool) for tool in self.registry]
        return why_not(tools, enabled, self.disabled, toolsets=self.toolsets, has_workplace=True)

    def check(self) -> None:
        """Raise ToolsetError when the settings name a toolset that does not exist."""
        for names in (self.enabled, self.disabled, *self.by_platform.values()):
            resolve(names, self.toolsets)


def choose_tools(
    registry: Registry, agent: AgentSettings, handed: Mapping[str, Tool] | None = None, mcp: McpHub | None = None
) -> ToolChoice:
    """Return the choice that the settings make; its names are not checked yet."""
    return ToolChoice(
        registry=registry,
        enabled=agent.enabled_toolsets,
        disabled=agent.disabled_toolsets,
        by_platform=split_by_platform(agent.platform_toolsets),
        handed=handed or {},
        mcp=mcp or McpHub({}),
    )


def split_by_platform(entries: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the toolsets by platform from entries such as `cli=core+messaging`."""
    pairs = (entry.removeprefix("hermes-").partition("=") for entry in entries)
    return {platform: tuple(names.split("+")) for platform, _, names in pairs}


def select(
    registry: Registry | Sequence[Tool],
    enabled: Iterable[str],
    disabled: Iterable[str] = (),
    *,
    toolsets: Mapping[str, Toolset] = TOOLSETS,
    has_workplace: bool = False,
) -> list[Tool]:
    """Return the enabled tools that can be used, by name; raises ToolsetError. `disabled` wins over `enabled`.

    Without a workplace, tools that need one are left out.
    """
    reasons = why_not(registry, enabled, disabled, toolsets=toolsets, has_workplace=has_workplace)
    return [tool for tool in registry if not reasons[tool.name]]


def why_not(
    registry: Iterable[Tool],
    enabled: Iterable[str],
    disabled: Iterable[str] = (),
    *,
    toolsets: Mapping[str, Toolset] = TOOLSETS,
    has_workplace: bool = False,
) -> dict[str, str]:
    """Return for each tool why it is left out, empty for a tool that is on; raises ToolsetError."""
    known = _known(registry, toolsets)
    switched_on = resolve(enabled, known)
    switched_off = resolve(disabled, known)
    reasons: dict[str, str] = {}
    for tool in registry:
        if tool.toolset in switched_off:
            reasons[tool.name] = f"toolset {tool.toolset} is disabled"
        elif tool.toolset not in switched_on:
            missing = why_unavailable(tool)
            reasons[tool.name] = f"toolset {tool.toolset} is not enabled{f'; {missing}' if missing else ''}"
        elif tool.needs_workplace and not has_workplace:
            reasons[tool.name] = "chats have no workplace in which it could run"
        else:
            reasons[tool.name] = why_unavailable(tool)
    return reasons


def check_names(names: Iterable[str], registry: Registry) -> None:
    """Raise ToolsetError, naming the toolsets that exist, if one of the names is none of them."""
    resolve(names, ToolChoice(registry=registry).toolsets)


def _known(registry: Iterable[Tool], toolsets: Mapping[str, Toolset]) -> dict[str, Toolset]:
    return {tool.toolset: Toolset(description="") for tool in registry} | dict(toolsets)


def resolve(names: Iterable[str], toolsets: Mapping[str, Toolset] = TOOLSETS) -> set[str]:
    """Return the named sets and all that they include; raises ToolsetError for an unknown name or a cycle."""
    resolved: set[str] = set()
    for name in names:
        _include(name, (), toolsets, resolved)
    return resolved


def _include(name: str, path: tuple[str, ...], toolsets: Mapping[str, Toolset], resolved: set[str]) -> None:
    if name in path:
        raise ToolsetError(f"Toolset {name} includes itself: {' -> '.join((*path, name))}.")
    if name in resolved:
        return
    if name not in toolsets:
        raise ToolsetError(_unknown(name, toolsets))
    for included in toolsets[name].includes:
        _include(included, (*path, name), toolsets, resolved)
    resolved.add(name)


def _unknown(name: str, toolsets: Mapping[str, Toolset]) -> str:
    nearest = get_close_matches(name, toolsets, n=1)
    names = sorted(one for one in toolsets if not one.startswith("hermes-"))
    guess = f" Did you mean {nearest[0]!r}?" if nearest else ""
    return f"There is no toolset named {name!r}.{guess} There are: {', '.join(names)}."
