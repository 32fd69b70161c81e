"""Check trajectory rows against the format, and count what is in them."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from agent_core.tokens import estimate_text
from agent_core.trajectory import InputRefused, Row, Turn, read_gpt, read_results, read_system
from hermes_config.extras import install_line

_TAGS = ("<think>", "</think>", "<tool_call>", "</tool_call>")


def find_problems(row: Row | None) -> list[str]:
    """Return what is wrong with a row, in words; nothing when it can be trained on."""
    if row is None:
        return ["the line is no JSON object"]
    turns = row.get("conversations")
    if not isinstance(turns, list) or not turns:
        return ["`conversations` is missing or empty"]
    if not all(
        isinstance(turn, dict) and all(isinstance(turn.get(k), str) for k in ("from", "value")) for turn in turns
    ):
        return ["each turn needs the texts `from` and `value`"]
    return [*_check_facts(row), *_check_turns(turns, completed=row.get("completed") is True)]


def _check_facts(row: Row) -> Iterator[str]:
    for name, kind, wanted in (
        ("model", str, "a text"),
        ("completed", bool, "true or false"),
        ("tool_stats", list, "a list"),
    ):
        if not isinstance(row.get(name), kind):
            yield f"`{name}` must be {wanted}"
    try:
        datetime.fromisoformat(row["timestamp"])
    except (KeyError, TypeError, ValueError):
        yield "`timestamp` must be a time in ISO form"


def _check_turns(turns: Sequence[Mapping[str, str]], *, completed: bool) -> Iterator[str]:
    calls: list[str] = []  # of the turn before, without results yet
    before = ""
    for number, turn in enumerate(turns, start=1):
        speaker, value = turn["from"], turn["value"]
        if calls and speaker != "tool":
            yield f"turn {number}: the calls of the turn before have no results"
        if before in ("", "system") and speaker not in ("system", "human"):
            yield f"turn {number}: a conversation begins with system or human, not {speaker}"
        elif speaker == "system" and number > 1:
            yield f"turn {number}: system speaks first or not at all"
        if problem := _check_value(speaker, value, calls):
            yield f"turn {number}: {problem}"
        calls = [call.name for call in read_gpt(value).tool_calls] if speaker == "gpt" else []
        before = speaker
    if completed and (before != "gpt" or calls):
        yield "it is marked as completed, but does not end with an answer"


def _check_value(speaker: str, value: str, waiting: Sequence[str]) -> str:
    """Return what is wrong with one turn, given the tools that were called in the one before."""
    match speaker:
        case "human":
            return ""
        case "system":
            return "<tools> is not a list of tools" if "<tools>" in value and not read_system(value)[1] else ""
        case "gpt":
            text = read_gpt(value).text
            broken = next((tag for tag in _TAGS if tag in text), "")
            return f"{broken} is not a whole region" if broken else ""
        case "tool":
            results = read_results(value)
            if results is None:
                return "it is not a row of <tool_response> regions"
            names = [result.tool_name for result in results]
            return "" if names == list(waiting) else f"results of {names} for calls of {list(waiting)}"
    return f"{speaker!r} is neither system, human, gpt nor tool"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCounter:
    """Counts the tokens of a text; `name` says by what."""

    name: str
    count: Callable[[str], int]

    def count_turns(self, turns: Iterable[Turn]) -> int:
        return sum(self.count(turn["value"]) for turn in turns)


ESTIMATE = TokenCounter(name="estimated, 4 bytes a token", count=estimate_text)


def open_counter(tokenizer: str) -> TokenCounter:
    """Return a counter for a folder with a `tokenizer.json`, or that file; empty: estimate. Raises InputRefused."""
    if not tokenizer:
        return ESTIMATE
    given = Path(tokenizer).expanduser()
    file = given / "tokenizer.json" if given.is_dir() else given
    if not file.is_file():
        raise InputRefused(f"There is no tokenizer at {file}. Name a folder that has a tokenizer.json.")
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise InputRefused(f"Reading a tokenizer needs the package `tokenizers`: {install_line('batch')}") from error
    try:
        opened = Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises bare ones
        raise InputRefused(f"{file} is no tokenizer that can be read: {error}") from error
    return TokenCounter(name=str(file), count=lambda text: len(opened.encode(text, add_special_tokens=False).ids))


def sum_up(rows: Iterable[Row | None], counter: TokenCounter) -> dict[str, Any]:
    """Return counts of rows, turns, tokens, models and tools, for people and scripts; broken rows are only counted."""
    sums = Counter(rows=0, broken=0, completed=0, turns=0, tokens=0)
    models, calls, failures, longest = Counter[str](), Counter[str](), Counter[str](), 0
    for row in rows:
        if row is None or find_problems(row):
            sums["broken"] += 1
            continue
        turns = row["conversations"]
        tokens = counter.count_turns(turns)
        sums.update(rows=1, completed=row["completed"], turns=len(turns), tokens=tokens)
        longest = max(longest, tokens)
        models[row["model"]] += 1
        for used in row["tool_stats"]:
            calls[used["tool"]] += used["calls"]
            failures[used["tool"]] += used["failures"]
    tools = [{"tool": name, "calls": count, "failures": failures[name]} for name, count in calls.most_common()]
    return {
        **sums,
        "longest_tokens": longest,
        "tokens_by": counter.name,
        "models": dict(models.most_common()),
        "tools": tools,
    }
