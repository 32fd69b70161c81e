"""Commands that would run unasked, and those that would be asked about needlessly: how many there are of each."""

import re
from time import perf_counter

from tests.tools.shell_guard.corpus import commands_of, judged
from tools.shell_guard import checks, wrappers
from tools.shell_guard.programs import _dangers, listed

_RULED = {*_dangers(), *checks._DELETING, *checks.SPECIAL, *listed("wrappers"), *wrappers._SPECIAL}


def test_nothing_dangerous_runs_unasked() -> None:
    families = commands_of("dangerous.txt")
    commands = [command for family in families.values() for command in family]
    unasked = [command for command in commands if judged(command).verdict == "safe"]
    print(f"{len(commands)} dangerous commands in {len(families)} families, {len(unasked)} would run unasked")
    assert len(commands) >= 1_000
    assert unasked == []


def test_hardly_a_disguise_slips_by() -> None:
    commands = [command for family in commands_of("disguises.txt").values() for command in family]
    unasked = [command for command in commands if judged(command).verdict == "safe"]
    print(f"{len(commands)} disguises, {len(unasked)} would run unasked: {unasked}")
    assert len(commands) >= 200
    assert len(unasked) <= len(commands) * 0.02


def test_hardly_anything_harmless_is_asked_about() -> None:
    [commands] = commands_of("harmless.txt").values()
    begun = perf_counter()
    asked = {command: found.reasons for command in commands if (found := judged(command)).verdict != "safe"}
    each = (perf_counter() - begun) / len(commands) * 1e6
    print(f"{len(commands)} harmless commands, {len(asked)} would be asked about; {each:.0f} µs each: {list(asked)}")
    assert len(commands) >= 500
    assert len(asked) <= len(commands) * 0.01


def test_each_program_asks_for_its_own_sake() -> None:
    """And would not under another name: so no rule can be lost unnoticed."""
    commands = [command for family in commands_of("programs.txt").values() for command in family]
    assert [command for command in commands if judged(command).verdict == "safe"] == []
    renamed = [" ".join("frobnicate" if word in _RULED else word for word in one.split(" ")) for one in commands]
    assert [one for one, other in zip(commands, renamed, strict=True) if one == other] == []
    assert len([command for command in renamed if judged(command).verdict != "safe"]) <= len(commands) * 0.1


def test_each_program_with_a_rule_is_tried() -> None:
    files = ("dangerous.txt", "programs.txt", "disguises.txt", "harmless.txt")
    text = "\n".join(one for file in files for family in commands_of(file).values() for one in family)
    tried = {word.rpartition("/")[2] for word in re.split(r"[\s;|&()'\"`$={}<>]+", text)}
    tried |= {f"git-{word}" for word in tried}
    assert len(_RULED - tried) <= len(_RULED) * 0.1
