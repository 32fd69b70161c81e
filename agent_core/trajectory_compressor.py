"""Shorten trajectories to a number of tokens, keeping their first and last turns.

First long results of tools in the middle lose their own middle; if that is not enough, whole turns there give way to
one line that says how many. Calls go together with their results, and no turn of the ends is changed.
"""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agent_core.trajectory import InputRefused, Turn, append, dump, read_results, read_rows, to_sharegpt
from agent_core.trajectory_checks import TokenCounter, find_problems
from tools.content import Text, cut_middle

_STUB_CHARS = 400  # of a long result


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    max_tokens: int
    first_turns: int = 3
    last_turns: int = 4


def compress_file(source: Path, target: Path, limits: Limits, counter: TokenCounter) -> dict[str, Any]:
    """Write the rows of a file, shortened, to another; return counts. Raises InputRefused, having written nothing.

    `broken` rows are left out; `still_too_long` are those whose protected turns alone are more than the limit.
    """
    if not source.is_file():
        raise InputRefused(f"There is no file {source}.")
    names = ("rows", "broken", "shortened", "still_too_long", "tokens_before", "tokens_after", "turns_removed")
    counts = Counter(dict.fromkeys(names, 0))

    def shorten() -> Iterator[bytes]:
        for _, row in read_rows(source):
            if row is None or find_problems(row):
                counts["broken"] += 1
                continue
            turns = row["conversations"]
            shorter = compress(turns, limits, counter)
            after = counter.count_turns(shorter)
            counts.update(
                rows=1,
                shortened=shorter != turns,
                still_too_long=after > limits.max_tokens,
                tokens_before=counter.count_turns(turns),
                tokens_after=after,
                turns_removed=max(len(turns) - len(shorter), 0),
            )
            yield dump(row | ({"conversations": shorter, "compressed": True} if shorter != turns else {}))

    unfinished = target.with_name(f".{target.name}.new")
    try:
        if target.exists():
            raise FileExistsError
        unfinished.unlink(missing_ok=True)
        append(unfinished, shorten())
        os.link(unfinished, target)  # never over a file that came meanwhile
    except FileExistsError:
        raise InputRefused(f"{target} exists already. Name another file.") from None
    except OSError as error:
        raise InputRefused(f"{target} could not be written: {error.strerror}.") from error
    finally:
        unfinished.unlink(missing_ok=True)
    return {**counts, "tokens_by": counter.name}


def compress(turns: Sequence[Turn], limits: Limits, counter: TokenCounter) -> list[Turn]:
    """Return the turns within the limit as far as the protected ones allow."""
    start = _skip_results(turns, limits.first_turns + (turns[0]["from"] == "system"))
    end = len(turns) - limits.last_turns
    while end > start and turns[end]["from"] == "tool":
        end -= 1
    if start >= end or counter.count_turns(turns) <= limits.max_tokens:
        return list(turns)
    middle = [_shorten_results(turn) for turn in turns[start:end]]
    room = limits.max_tokens - counter.count_turns([*turns[:start], *turns[end:]])
    sizes = [counter.count(turn["value"]) for turn in middle]
    removed, note = 0, list[Turn]()
    while removed < len(middle) and counter.count_turns(note) + sum(sizes[removed:]) > room:
        removed = _skip_results(middle, removed + 1)
        note = [{"from": "human", "value": f"[{removed} turns of this conversation were left out here.]"}]
    return [*turns[:start], *note, *middle[removed:], *turns[end:]]


def _skip_results(turns: Sequence[Turn], at: int) -> int:
    """Return where the next turn that is no result begins: calls are not parted from their results."""
    while at < len(turns) and turns[at]["from"] == "tool":
        at += 1
    return at


def _shorten_results(turn: Turn) -> Turn:
    results = read_results(turn["value"]) if turn["from"] == "tool" else None
    if not results:
        return turn
    cut = (replace(one, parts=(Text(text=cut_middle(one.text, _STUB_CHARS)),)) for one in results)
    return to_sharegpt(cut, ())[-1]
