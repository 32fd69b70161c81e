"""What would run unasked, and what would be asked about needlessly: none of either."""

import re
from time import perf_counter

from tests.tools.shell_guard.corpus import commands_of, judged
from tools.shell_guard import wrappers
from tools.shell_guard.rules import data, executing, files, machine, network, versions

_RULED = {
    *(name for rules in (data, files, machine, network, versions) for name in rules.RULES),
    *(
        name
        for table in (executing._PROGRAMS, executing._RUNNING, wrappers._PREFIXES, wrappers._SPECIAL)
        for name in table
    ),
}
_HARDLY_TOLD_APART = {"dc3dd", "gp", "jshell"}  # what they are given asks under any name, or is a file


def test_nothing_dangerous_runs_unasked() -> None:
    families = commands_of("dangerous.txt")
    commands = [command for family in families.values() for command in family]
    unasked = [command for command in commands if judged(command).verdict == "safe"]
    print(f"{len(commands)} dangerous commands in {len(families)} families, {len(unasked)} would run unasked")
    assert len(commands) >= 200
    assert len(families) >= 15
    assert unasked == []


def test_nothing_harmless_is_asked_about() -> None:
    [commands] = commands_of("harmless.txt").values()
    begun = perf_counter()
    asked = {command: found.reasons for command in commands if (found := judged(command)).verdict != "safe"}
    each = (perf_counter() - begun) / len(commands) * 1e6
    print(f"{len(commands)} harmless commands, {len(asked)} would be asked about; {each:.0f} µs each")
    assert len(commands) >= 120
    assert asked == {}


def test_each_program_asks_for_its_own_sake() -> None:
    """And would not under another name: so no rule can be lost unnoticed."""
    commands = [command for family in commands_of("programs.txt").values() for command in family]
    assert [command for command in commands if judged(command).verdict == "safe"] == []
    renamed = [" ".join("frobnicate" if word in _RULED else word for word in one.split(" ")) for one in commands]
    assert [one for one, other in zip(commands, renamed, strict=True) if one == other] == []
    assert [command for command in renamed if judged(command).verdict != "safe"] == []


def test_each_program_with_a_rule_is_tried() -> None:
    files = ("dangerous.txt", "programs.txt")
    text = "\n".join(one for file in files for family in commands_of(file).values() for one in family)
    tried = {word.rpartition("/")[2] for word in re.split(r"[\s;|&()'\"`$={}<>]+", text)}
    assert sorted(_RULED - tried - _HARDLY_TOLD_APART) == []
