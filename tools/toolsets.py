"""Toolsets: named sets of tools that can be switched on and off, and may include other sets.

A set holds the tools that name it, and those of the sets it includes. A set that only a drop-in tool names exists too.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from tools.base import Tool
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
    "file": Toolset(description="read, write, search and patch files"),
    "terminal": Toolset(description="run shell commands, in the foreground or background"),
    "messaging": Toolset(description="send messages to other chats, each after approval"),
    "core": Toolset(description="the default tools", includes=("clock", "terminal", "file", "todo")),
}


def select(
    registry: Registry,
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
    registry: Registry,
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
            reasons[tool.name] = f"toolset {tool.toolset} is not enabled"
        elif tool.needs_workplace and not has_workplace:
            reasons[tool.name] = "chats have no workplace in which it could run"
        else:
            reasons[tool.name] = why_unavailable(tool)
    return reasons


def check_names(names: Iterable[str], registry: Registry) -> None:
    """Raise ToolsetError, naming the toolsets that exist, if one of the names is none of them."""
    resolve(names, _known(registry, TOOLSETS))


def _known(registry: Registry, toolsets: Mapping[str, Toolset]) -> dict[str, Toolset]:
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
    guess = f" Did you mean {nearest[0]!r}?" if nearest else ""
    return f"There is no toolset named {name!r}.{guess} There are: {', '.join(sorted(toolsets))}."
