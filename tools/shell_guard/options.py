"""Reading the words of a command as options and the rest.

`read` is for commands whose options may stand anywhere, `read_leading` for those that are followed by another
command: what looks like an option behind its name is that command's own.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from tools.shell_guard.programs import names

_LEAST_CHARS = 3  # of a long option that is cut short: `rm --r x` is understood
# Options of their own with which a longer one begins: taken for it, `curl --head` would swallow the address.
_WHOLE = names("--head --detach --tag --list --checkpoint --init --exec-path --start")


@dataclass(frozen=True, slots=True)
class Options:
    """A long option may be cut short, as most programs allow: `--recurs` is found as `--recursive`."""

    given: tuple[tuple[str, str], ...]  # (option, value), the value empty for one that takes none
    rest: tuple[str, ...]  # what is no option
    takers: frozenset[str] = frozenset()  # known to take a value, and so never short for another one

    def has(self, *names: str) -> bool:
        return any(self._is(option, names) for option, _ in self.given)

    def values(self, *names: str) -> list[str]:
        return [value for option, value in self.given if self._is(option, names)]

    def _is(self, option: str, names: tuple[str, ...]) -> bool:
        if option in names:
            return True
        return option not in self.takers and _may_be_short(option) and any(name.startswith(option) for name in names)


def read(words: Iterable[str], with_value: str = "", *, stops_at_first: bool = False) -> Options:
    """Read words as options and the rest.

    Letters in one word (`-rf`) are options each; `with_value` names those that take a value, by spaces.

    One with a question mark (`-i?`) takes only what stands in the same word.
    """
    takers = frozenset(with_value.split())
    waiting, given, rest = deque(words), list[tuple[str, str]](), list[str]()
    while waiting:
        word = waiting.popleft()
        if word == "--":
            break
        if not word.startswith("-") or word == "-":
            rest.append(word)
            if stops_at_first:
                break
        elif word.startswith("--") or word in takers:
            option, is_whole, value = word.partition("=")
            option = _in_full(option, takers)
            if option in takers and not is_whole:
                value = waiting.popleft() if waiting else ""
            given.append((option, value))
        else:
            given += _letters(word, takers, waiting)
    return Options(tuple(given), (*rest, *waiting), takers)


read_leading = partial(read, stops_at_first=True)  # from the first word that is no option, all is the rest


def _may_be_short(option: str) -> bool:
    return option.startswith("--") and len(option) >= _LEAST_CHARS and option not in _WHOLE


def _in_full(option: str, takers: frozenset[str]) -> str:
    if option in takers or not _may_be_short(option):
        return option
    return min((taker for taker in takers if taker.startswith(option)), default=option)


def _letters(word: str, takers: frozenset[str], waiting: deque[str]) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for place, letter in enumerate(word[1:], start=2):
        option = f"-{letter}"
        if option in takers:
            value = word[place:] or (waiting.popleft() if waiting else "")
            return [*found, (option, value)]
        if f"{option}?" in takers:
            return [*found, (option, word[place:])]
        found.append((option, ""))
    return found
