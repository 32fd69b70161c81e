"""Which tools are on: named sets of tools, which may include other sets.

A set holds the tools that name it as theirs, and those of the sets it includes. A tool from outside may
name a set of its own; that set then exists too.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from tools.base import Tool
from tools.registry import Registry, why_unavailable


class ToolsetError(ValueError):
    """The choice of toolsets cannot be followed. The text is for the operator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolset:
    description: str
    includes: tuple[str, ...] = ()


TOOLSETS: Mapping[str, Toolset] = {
    "clock": Toolset(description="the date and the time, anywhere"),
    "todo": Toolset(description="a list of tasks for each conversation"),
    "file": Toolset(description="reading, writing, searching and patching files"),
    "terminal": Toolset(description="shell commands, waited for or in the background"),
    "messaging": Toolset(description="messages to other chats, each after a human's yes"),
    "core": Toolset(description="what is on unless you choose", includes=("clock", "terminal", "file", "todo")),
}


def select(
    registry: Registry,
    enabled: Iterable[str],
    disabled: Iterable[str] = (),
    *,
    toolsets: Mapping[str, Toolset] = TOOLSETS,
    has_workplace: bool = False,
) -> list[Tool]:
    """The tools that are on and can be used, by name. What is disabled wins. Raises ToolsetError.

    Those that need a workplace are left out where their calls would have none.
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
    """For each tool that exists why it is left out; empty for a tool that is on. Raises ToolsetError."""
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
            reasons[tool.name] = "there is no place yet in which it could work for chats"
        else:
            reasons[tool.name] = why_unavailable(tool)
    return reasons


def check_names(names: Iterable[str], registry: Registry) -> None:
    """Raise ToolsetError, naming those that exist, if one of the names is no toolset."""
    resolve(names, _known(registry, TOOLSETS))


def _known(registry: Registry, toolsets: Mapping[str, Toolset]) -> dict[str, Toolset]:
    return {tool.toolset: Toolset(description="") for tool in registry} | dict(toolsets)


def resolve(names: Iterable[str], toolsets: Mapping[str, Toolset] = TOOLSETS) -> set[str]:
    """The sets named and all that they include. Raises ToolsetError for an unknown name or a circle."""
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
