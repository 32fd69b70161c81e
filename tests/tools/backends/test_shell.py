"""What is believed of a shell's report about its own end."""

import pytest

from tools.backends.base import ShellState
from tools.backends.supervised import MAX_VARIABLES_BYTES, read_report

GIVEN = {"PATH": "/bin", "LANG": "C", "PWD": "/"}


def test_variables_are_told_by_how_they_differ() -> None:
    report = b"/srv/a b\n\0PATH=/bin\0NEW=a=b\nc\0PWD=/srv/a b\0SHLVL=1\0_=/usr/bin/env\0\0"
    assert read_report(report, GIVEN) == ShellState(folder="/srv/a b", variables={"NEW": "a=b\nc", "LANG": None})


@pytest.mark.parametrize(
    "report",
    [
        *(b"", b"/srv", b"/srv\n", b"/srv\n\0", b"/srv\n\0PATH=/bin", b"/srv\n\0PATH=/bin\0"),
        *(b"srv\n\0PATH=/bin\0\0", b"\n\0\0", b"\0\0\0"),
    ],
)
def test_a_report_that_is_cut_or_made_up_tells_nothing(report: bytes) -> None:
    assert read_report(report, GIVEN) is None


def test_what_no_shell_could_take_back_is_left_out() -> None:
    report = b"/\n\0PATH=/bin\0LANG=C\0BASH_FUNC_f%%=() { :; }\0a.b=1\0x;y=1\0UID=0\0SHELLOPTS=x\0OK=1\0\0"
    assert read_report(report, GIVEN) == ShellState(folder="/", variables={"OK": "1"})


def test_bytes_that_are_no_text_stay_as_they_are() -> None:
    state = read_report(b"/\xff\n\0PATH=/bin\0LANG=C\0X=\xfe\0\0", GIVEN)
    assert state == ShellState(folder="/\udcff", variables={"X": "\udcfe"})


def test_an_empty_environment_is_one() -> None:
    assert read_report(b"/\n\0\0", {"A": "1"}) == ShellState(folder="/", variables={"A": None})


def test_too_many_variables_are_not_kept() -> None:
    state = read_report(b"/\n\0BIG=" + b"x" * MAX_VARIABLES_BYTES + b"\0\0", {})
    assert state == ShellState(folder="/", variables=None)
