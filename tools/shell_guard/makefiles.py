"""A makefile as the script that its recipes are, all of them: which target is wanted does not matter here."""

import re

from tools.shell_guard.expansion import UNKNOWN

_ASSIGNED = re.compile(r"^(?:export\s+|override\s+)?([\w.-]+)\s*(?:::?|\?|\+)?=[ \t]*(.*)$", re.MULTILINE)
_REFERENCE = re.compile(r"\$\$|\$\(shell\s|\$[({]([\w.-]+)[)}]|\$([@<^?*+%|])|\$[({]")
_USUAL = {"MAKE": "make", "CC": "cc", "CXX": "c++", "RM": "rm -f", "AR": "ar", "SHELL": "sh"}
_ELSEWHERE = re.compile(
    r"^(?!\t)(?:[^\n=#;]*:[^\n=#;]*;|[\w.-]+[ \t]*!=)[ \t]*([^\n]+)", re.MULTILINE
)  # x:; y and x != y
_OTHERWISE = re.compile(r"^\.RECIPEPREFIX|\$[({](?:eval|guile|load|file)\b|^load\s", re.MULTILINE)
_MAX_TURNS = 4  # of variables in variables


def script_of(text: str) -> str:
    """Return the commands of a makefile; unknown parts are unset variables. `UNKNOWN` when it cannot be read so."""
    if _OTHERWISE.search(text):
        return UNKNOWN
    text = text.replace("\\\n", " ")
    variables = _USUAL | dict(_ASSIGNED.findall(text))
    lines = [line.lstrip("\t@+- ") for line in text.split("\n") if line.startswith("\t")]
    lines += [f": {line}" for line in text.split("\n") if "$(shell" in line and not line.startswith("\t")]
    lines += [found[1] for found in _ELSEWHERE.finditer(text)]
    script = "\n".join(lines)
    for _ in range(_MAX_TURNS):
        script = _REFERENCE.sub(lambda found: _put_in(found, variables), script)[:100_000]
    return script.replace("\x06", "$")


def _put_in(found: re.Match[str], variables: dict[str, str]) -> str:
    if found[0] == "$$":
        return "\x06"  # a dollar of the shell, which is not looked at again
    if found[0].startswith("$(shell"):
        return "\x06("
    if found[1]:
        return variables.get(found[1], "\x06{_made}")
    return "\x06{_made}" if found[2] else "\x06{_made} # "
