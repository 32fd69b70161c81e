"""Read what a peer remembers, as one fact for each entry."""

import re
from collections.abc import Iterator
from pathlib import Path

from hermes_config.sources import read_text

_SEPARATOR = re.compile(r"^§$", re.MULTILINE)  # between the entries of hermes-agent
_HEADING = re.compile(r"(#+)\s+(.*)")
_BULLET = re.compile(r"\s*(?:[-*+]|\d+[.)])(?:\s+|$)")
# What a template has in place of facts: a hint in brackets or italics, a box that is not ticked, a rule.
_BLANK = re.compile(r"\(.*\)|\*[^*].*[^*]\*|_.*_|\[ \].*|[-*_\s]*|\*{0,2}[^*:]+\*{0,2}:\s*\(.*\)\s*", re.DOTALL)
_WORD = re.compile(r"[^\W_]+")
_KEY_WORDS, _KEY_CHARS = 6, 40
_SHORT_WORDS = 4


def read_memories(file: Path) -> list[str]:
    """Return the facts in a file of Markdown, or in one of entries between `§`; raises ConfigError."""
    text = read_text(file) or ""
    entries = _SEPARATOR.split(text) if _SEPARATOR.search(text) else _split(text)
    facts = (" ".join(entry.replace("**", "").split()) for entry in entries)
    return list(dict.fromkeys(filter(None, facts)))


def _split(text: str) -> Iterator[str]:
    """Yield list items and paragraphs, short ones with the heading above them. Text below the title alone introduces a
    file."""
    heading, entry, is_intro = "", "", False
    for line in [*text.splitlines(), ""]:
        title, bullet = _HEADING.match(line), _BULLET.match(line)
        if title or bullet or not line.strip():
            if not (is_intro or _BLANK.fullmatch(entry)):
                is_short = heading and ":" not in entry and len(entry.split()) < _SHORT_WORDS
                yield f"{heading}: {entry}" if is_short else entry
            entry = line[bullet.end() :].strip().removeprefix("[x] ") if bullet else ""
            is_intro = is_intro and not bullet
        else:
            entry = f"{entry} {line.strip()}".strip()
        if title:
            is_intro = len(title[1]) == 1 and text.count("\n## ") > 0
            heading = "" if len(title[1]) == 1 else title[2].strip()


def name_memories(values: list[str], taken: set[str]) -> Iterator[tuple[str, str]]:
    """Yield keys made of the first words of each fact, none of them taken, and the facts."""
    for value in values:
        words = _WORD.findall(value.casefold())[:_KEY_WORDS]
        base = "_".join(words)[:_KEY_CHARS].strip("_") or "fact"
        key = next(name for name in (base, *(f"{base}_{number}" for number in range(2, 10_000))) if name not in taken)
        taken.add(key)
        yield key, value
