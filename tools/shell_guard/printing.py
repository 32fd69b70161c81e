"""Tell the output of a command where its words determine it."""

import re

from tools.shell_guard.escapes import ansi_c
from tools.shell_guard.expansion import UNKNOWN
from tools.shell_guard.findings import Run

_DIRECTIVE = re.compile(r"%[sb]|%%|%.")


def printed(run: Run) -> str:
    """`UNKNOWN` when it cannot be said."""
    match run.name:
        case "echo":
            words = list(run.words)
            flags = ""
            while words and re.fullmatch(r"-[neE]+", words[0]):
                flags += words.pop(0)
            text = " ".join(words)
            if "e" in flags:
                text = UNKNOWN if UNKNOWN in text else ansi_c(text)
            return text + ("" if "n" in flags else "\n")
        case "printf":
            return _formatted(run.words)
        case "cat" if not run.words or run.words == ("-",):
            return UNKNOWN if run.stdin is None else run.stdin
        case "tee":
            return UNKNOWN if run.stdin is None else run.stdin
        case "true" | "false" | ":" | "cd" | "export" | "set" | "shopt" | "alias" | "unset" | "mkdir" | "touch":
            return ""
        case _:
            return UNKNOWN


def _formatted(words: tuple[str, ...]) -> str:
    if not words or words[0].startswith("-") or UNKNOWN in words[0]:
        return UNKNOWN
    pattern, *values = words
    text = ansi_c(pattern)
    if not values:
        return text.replace("%%", "%") if not re.search(r"%[^%]", text) else UNKNOWN
    used = [match[0] for match in _DIRECTIVE.finditer(text)]
    if any(one not in ("%s", "%b", "%%") for one in used) or not {"%s", "%b"} & set(used):
        return UNKNOWN
    made = ""
    while values:
        made += _DIRECTIVE.sub(lambda one: "%" if one[0] == "%%" else _value(one[0], values), text)
    return made


def _value(directive: str, values: list[str]) -> str:
    value = values.pop(0) if values else ""
    return ansi_c(value) if directive == "%b" and UNKNOWN not in value else value
