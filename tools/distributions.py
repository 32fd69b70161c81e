"""Distributions over toolsets: each prompt of a batch is offered a sample of tools, so that models learn with and
without each of them."""

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from tools.base import Tool
from tools.registry import why_unavailable
from tools.toolsets import TOOLSETS, ToolsetError, resolve


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """For each toolset the chance, from 0 to 1, that a prompt is offered it; each is drawn by itself."""

    description: str
    chances: Mapping[str, float]

    def sample(self, key: str, *, seed: int = 0) -> tuple[str, ...]:
        """Draw the toolsets for a prompt: the same ones for the same key and seed, on every machine.

        Never nothing: when no draw succeeds, the likeliest toolset is taken.
        """
        # A text seeds by its SHA-512, which is fixed; `hash` differs from process to process.
        draws = random.Random(f"{seed}\0{key}")  # noqa: S311 - samples, guards nothing
        drawn = [name for name, chance in self.chances.items() if draws.random() < chance]
        return tuple(drawn or [max(self.chances, key=lambda name: self.chances[name])])


def _describe(description: str, **chances: float) -> Distribution:
    return Distribution(description=description, chances=chances)


DISTRIBUTIONS: Mapping[str, Distribution] = {
    "default": _describe("files, shell and lists always", terminal=1.0, file=1.0, todo=1.0),
    "research": _describe(
        "reads the web, sometimes with a shell to work on what it found",
        web=0.95,
        file=0.5,
        browser=0.4,
        terminal=0.4,
        vision=0.3,
        todo=0.3,
        delegate=0.2,
    ),
    "science": _describe("computes and looks things up", terminal=0.95, file=0.9, web=0.6, code=0.5, todo=0.3, moa=0.1),
    "development": _describe(
        "writes and runs code", terminal=0.97, file=0.95, todo=0.5, code=0.4, web=0.25, delegate=0.2
    ),
    "reasoning": _describe("thinks together with other models", moa=0.9, code=0.4, web=0.2, file=0.1),
    "safe": _describe("no shell and no files", web=0.8, clock=0.6, todo=0.6, vision=0.3),
    "creative": _describe("pictures and speech", image=0.9, vision=0.7, speech=0.4, web=0.4),
    "minimal": _describe("the web alone", web=1.0),
    "browser_use": _describe("works in a browser, and looks things up", browser=1.0, web=0.7, vision=0.2),
    "terminal_only": _describe("a shell and files, nothing from outside", terminal=1.0, file=1.0),
    "balanced": _describe(
        "each of the common toolsets every other time",
        **dict.fromkeys(("terminal", "file", "web", "todo", "clock", "vision", "image", "code", "delegate"), 0.5),
    ),
}


def find_distribution(name: str) -> Distribution:
    """Return the distribution of that name; raises ToolsetError with the nearest names."""
    if name not in DISTRIBUTIONS:
        nearest = get_close_matches(name, DISTRIBUTIONS, n=2)
        guess = f" Did you mean {' or '.join(map(repr, nearest))}?" if nearest else ""
        raise ToolsetError(f"There is no distribution named {name!r}.{guess} There are: {', '.join(DISTRIBUTIONS)}.")
    return DISTRIBUTIONS[name]


def find_absent(distribution: Distribution, tools: Iterable[Tool]) -> dict[str, str]:
    """Return the toolsets of a distribution that have no tool here, and why: nothing would be offered for them."""
    by_set: dict[str, list[str]] = {}
    for tool in tools:
        by_set.setdefault(tool.toolset, []).append(why_unavailable(tool))
    absent: dict[str, str] = {}
    for name in distribution.chances:
        reasons = [reason for one in resolve([name], TOOLSETS) for reason in by_set.get(one, ())]
        if all(reasons):
            absent[name] = "; ".join(dict.fromkeys(reasons)) or "it has no tools"
    return absent
