"""Which variables of a script cannot be followed, since a loop, a function or a builtin sets them."""

from collections.abc import Iterator

from tools.shell_guard.expansion import EVERYTHING, UNKNOWN, Scope, fields
from tools.shell_guard.names import names
from tools.shell_guard.syntax import Block, Chain, Pipeline, Script, Simple, Statement

_SETTING = names("read mapfile readarray printf getopts let declare typeset local unset wait")
_READING_SCRIPTS = names("eval source . trap")


def names_unsure(script: Script) -> frozenset[str]:
    return frozenset(name for statement in script for name in _names(statement, is_repeated=False))


def _names(statement: Statement, *, is_repeated: bool) -> Iterator[str]:
    match statement:
        case Simple():
            yield from _set_by(statement, is_repeated=is_repeated)
        case Pipeline(parts) | Chain(parts):
            for part in parts:
                yield from _names(part, is_repeated=is_repeated)
        case Block(kind, body, name):
            if kind == "loop" and name:
                yield name
            for inner in body:
                yield from _names(inner, is_repeated=is_repeated or kind in ("loop", "function"))


def _set_by(command: Simple, *, is_repeated: bool) -> Iterator[str]:
    if is_repeated:
        yield from (assignment.name for assignment in command.assignments)
    words = [one for word in command.words for one in fields(word, Scope(), lambda script: UNKNOWN)]
    if _SETTING & set(words):
        yield from (word for word in words if word.isidentifier())
        if any(word.startswith("-") and "n" in word for word in words) and not {"printf", "read"} & set(words):
            yield EVERYTHING  # one name may stand for another from here on
    if is_repeated and _READING_SCRIPTS & set(words):
        yield EVERYTHING
