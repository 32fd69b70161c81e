"""However long or deep a command or a file is, reading it ends soon: counted in calls, not in seconds."""

import shlex
import sys
from collections.abc import Callable
from functools import reduce
from time import process_time

import pytest

from tools.shell_guard.guard import judge

_MAX_CALLS = 2_500_000  # three times what the worst of these takes
_WRITTEN = {
    "/w/long.sh": "ls\n" * 40_000,
    "/w/line.py": "x = 1;" * 40_000,
    **{f"/w/{number}.sh": f"sh {number + 1}.sh; sh {number + 2}.sh\n" for number in range(60)},
    **{f"/w/m{number}.py": "".join(f"import m{other}\n" for other in range(40)) for number in range(40)},
    "/w/Makefile": "A = $(A)$(A)$(A)$(A)\n" + "all:\n" + "\t$(A) x\n" * 500,
}
_HOSTILE = {
    "a long word": "echo " + "x" * 100_000,
    "a long row of words": "echo " + "x " * 50_000,
    "many lines": "ls\n" * 30_000,
    "substitutions": "$(" * 3_000 + ")" * 3_000,
    "subshells": "( " * 4_500 + "ls" + " )" * 4_500,
    "wrappers": "env " * 3_000 + "ls",
    "loose wrappers": "unshare " * 1_000 + "ls",
    "evals": "eval " * 3_000 + "ls",
    "branches": "if true; then " * 800 + "ls" + "; fi" * 800,
    "doubling": "a=xxxxxxxxxx; " + "a=$a$a; " * 60 + "$a",
    "braces": "echo " + "{a,b}" * 200 + "{" * 4_000 + "}" * 4_000,
    "quotes in quotes": reduce(lambda line, _: f"sh -c {shlex.quote(line)}", range(9), "ls"),
    "patterns": "cat " + "~/.s*h/id_? " * 1_600,
    "addresses": "curl " + "https://x.example/a " * 900,
    "an address of many parts": "curl " + "a@" * 9_000,
    "a copy of many parts": "scp " + "a:" * 9_000 + " b",
    "calls": "python3 -c '" + "requests.get(x);" * 1_200 + "'",
    "calls in calls": "node -e '" + "fetch(" * 3_000 + "'",
    "imports": "node -e '" + "import x " * 2_000 + "'",
    "names": "dig " + "@a.example " * 1_700,
    "a long file": "sh long.sh",
    "a long line in a file": "python3 line.py",
    "files that run two others each": "sh 0.sh",
    "files that load each other": "python3 m0.py",
    "the same files again and again": "python3 m0.py; " * 400,
    "a makefile that doubles": "make",
    "commands that may be words": "foo " + "python " * 2_500,
    "texts that may be commands": "foo " + "'git a; git b' " * 1_200,
    "one long pattern of awk": "awk '/" + r"a\/" * 6_000 + "'",
    "commands of sed": "sed '" + "b;" * 9_000 + "'",
}
# Regular expressions make no calls, however long they try: by how the time grows with the text.
_GROWING: dict[str, Callable[[int], str]] = {
    "escaped slashes in awk": lambda size: "awk '/" + r"a\/" * size + "'",
    "quotes in awk": lambda size: "awk '" + '"a' * size + "'",
    "marks of sed": lambda size: "sed '" + "sxs," * size + "'",
    "brackets of sed": lambda size: "sed 's/" + "[:[" * size + "/x/'",
    "lines of sed": lambda size: "sed '" + "a\\\n" * size + "'",
    "separators": lambda size: "foo '" + ";a/ " * size + "'",
    "settings of git": lambda size: "git -c " + "diff." * size + " log",
    "a mode of chmod": lambda size: "chmod " + "a" * size * 3 + "! x",
    "an id of chmod": lambda size: "chmod +" + "s" * size * 3 + "! x",
    "letters of git checkout": lambda size: "git checkout -" + "f" * size * 3 + "!",
    "letters of git push": lambda size: "git push -" + "d" * size * 3 + "!",
    "remarks of SQL": lambda size: "psql -c '" + "/*" * size + "'",
    "strings of SQL": lambda size: 'psql -c "' + "'a" * size + '"',
    "open brackets": lambda size: "cp x " + "[" * size * 3,
    "folders that are patterns": lambda size: "cat " + "/*" * size,
    "hidden folders": lambda size: "cp x " + ".ssh/" * size,
    "names of keys": lambda size: "cat " + "id_" * size,
    "everything in everything": lambda size: "rm " + "/*" * size + "!",
    "words of kubectl": lambda size: "kubectl " + "'" + "get " * size + "'",
    "words of docker": lambda size: "docker compose " + "'" + "down " * size + "'",
}


@pytest.mark.parametrize("command", _HOSTILE.values(), ids=_HOSTILE)
def test_reading_ends_soon(command: str) -> None:
    calls = 0

    def count(*event: object) -> None:
        nonlocal calls
        calls += 1
        if calls > _MAX_CALLS:
            sys.setprofile(None)
            raise AssertionError("it goes on and on")

    sys.setprofile(count)
    try:
        judge(command, cwd="/w", home="/home/me", written=_WRITTEN)
    finally:
        sys.setprofile(None)
    assert 0 < calls <= _MAX_CALLS


@pytest.mark.parametrize(
    "name", ["a long word", "many lines", "subshells", "evals", "a long file", "a long line in a file"]
)
def test_what_is_not_read_to_its_end_is_asked_about(name: str) -> None:
    assert judge(_HOSTILE[name], cwd="/w", written=_WRITTEN).verdict == "ask"


@pytest.mark.parametrize("command", _GROWING.values(), ids=_GROWING)
def test_what_it_takes_does_not_grow_with_the_square_of_the_text(command: Callable[[int], str]) -> None:
    """Eight times the text would take 64 times as long: far enough from eight for any machine to tell them apart."""

    def seconds(size: int) -> float:
        def once() -> float:
            begun = process_time()
            judge(command(size), cwd="/w")
            return process_time() - begun

        return min(once() for _ in range(5))

    assert seconds(4_400) < 24 * seconds(550)
