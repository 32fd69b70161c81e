"""What would run unasked, and what would be asked about needlessly: none of either."""

from time import perf_counter

from tests.tools.guard.corpus import commands_of, judged


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
