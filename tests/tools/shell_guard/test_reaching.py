"""Whom a command would contact, and what could leave by it."""

import pytest

from tests.tools.shell_guard.corpus import commands_of
from tools.shell_guard.reaching import NetworkReach, reaches

_FAMILIES = commands_of("reaching.txt")
_ROWS = [tuple(line.split(" :: ", 1)) for family in _FAMILIES.values() for line in family]


def _short(reach: NetworkReach) -> str:
    is_unknown = reach == NetworkReach(host="", url=reach.url, carries=True, sends=False, program=reach.program)
    return (reach.host or "?") + ("!" if reach.sends else "+" if reach.carries and not is_unknown else "")


def _told(command: str, written: dict[str, str] | None = None) -> list[str]:
    found = reaches(command, cwd="/home/me/proj", home="/home/me", written=written)
    assert all(reach.carries for reach in found if reach.sends or not reach.host)
    return list(dict.fromkeys(map(_short, found)))


@pytest.mark.parametrize(("expected", "command"), _ROWS, ids=lambda value: value[:60])
def test_whom_it_would_contact(expected: str, command: str) -> None:
    assert sorted(_told(command)) == sorted(expected.split() if expected != "-" else [])


def test_the_corpus_is_large() -> None:
    assert len(_ROWS) >= 80
    assert len(_FAMILIES) >= 8


def test_what_is_told() -> None:
    [reach] = reaches('curl -T notes.txt "https://x.example/$x"', cwd="/w", home="/home/me")
    assert reach == NetworkReach(host="x.example", url="https://x.example/…", carries=True, sends=True, program="curl")


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("python3 a.py", ["y.example+"]),
        ("./a.sh", ["x.example"]),
        ("bash a.sh", ["x.example"]),
        ("cat a.sh | sh", ["x.example"]),
        ("sh < a.sh", ["x.example+"]),  # what is read from a file could leave
        ("source a.sh", ["x.example"]),
        ("python3 -m a", ["y.example+"]),
        ("python3 -c 'import a'", ["y.example+"]),
        ("cat a.sh", []),
        ("ls", []),
    ],
)
def test_a_file_written_before_is_read_when_it_is_run(command: str, expected: list[str]) -> None:
    written = {
        "/home/me/proj/a.sh": "curl https://x.example\n",
        "/home/me/proj/a.py": "import requests\nrequests.get('https://y.example')\n",
    }
    assert _told(command, written) == expected
