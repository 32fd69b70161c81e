"""Reading the words of a command as options and the rest."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Options:
    given: tuple[tuple[str, str], ...]  # (option, value), the value empty for one that takes none
    rest: tuple[str, ...]  # what is no option

    def has(self, *names: str) -> bool:
        return any(option in names for option, _ in self.given)

    def values(self, *names: str) -> list[str]:
        return [value for option, value in self.given if option in names]


def read(words: Iterable[str], with_value: str = "", *, stops_at_first: bool = False) -> Options:
    """Letters in one word (`-rf`) are options each; `with_value` names those that take a value, by spaces.

    With `stops_at_first`, everything from the first word that is no option belongs to the rest.
    """
    takers = frozenset(with_value.split())
    waiting, given, rest = deque(words), list[tuple[str, str]](), list[str]()
    while waiting:
        word = waiting.popleft()
        if word == "--":
            return Options(tuple(given), (*rest, *waiting))
        if not word.startswith("-") or word == "-":
            rest.append(word)
            if stops_at_first:
                return Options(tuple(given), (*rest, *waiting))
        elif word.startswith("--") or word in takers:
            option, is_whole, value = word.partition("=")
            if option in takers and not is_whole:
                value = waiting.popleft() if waiting else ""
            given.append((option, value))
        else:
            given += _letters(word, takers, waiting)
    return Options(tuple(given), tuple(rest))


def read_around_first(words: Iterable[str], with_value: str) -> Options:
    """As ssh reads: options before and behind the first word that is none, which is in `rest` with what follows."""
    before = read(words, with_value, stops_at_first=True)
    behind = read(before.rest[1:], with_value, stops_at_first=True)
    return Options((*before.given, *behind.given), (*before.rest[:1], *behind.rest))


def _letters(word: str, takers: frozenset[str], waiting: deque[str]) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for place, letter in enumerate(word[1:], start=2):
        option = f"-{letter}"
        if option in takers:
            value = word[place:] or (waiting.popleft() if waiting else "")
            return [*found, (option, value)]
        found.append((option, ""))
    return found
