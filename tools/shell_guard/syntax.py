"""The syntax tree of a shell command, as far as the guard looks: words of pieces, commands, and compounds."""

from dataclasses import dataclass, replace
from typing import Literal


@dataclass(frozen=True, slots=True)
class LiteralText:
    """As written; what is not quoted may still hold backslashes, braces, patterns and a tilde."""

    text: str
    is_quoted: bool = False


@dataclass(frozen=True, slots=True)
class Variable:
    name: str
    is_quoted: bool = False


@dataclass(frozen=True, slots=True)
class CommandSubstitution:
    """The output of a script, in place: `$(…)`."""

    script: "Script"
    is_quoted: bool = False


@dataclass(frozen=True, slots=True)
class Channel:
    """A file that a script writes or reads: `<(…)` and `>(…)`."""

    script: "Script"


@dataclass(frozen=True, slots=True)
class Opaque:
    """Decided when it runs; the scripts are those inside it, which run all the same."""

    scripts: tuple["Script", ...] = ()


Piece = LiteralText | Variable | CommandSubstitution | Channel | Opaque
Word = tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Assignment:
    name: str
    value: Word


@dataclass(frozen=True, slots=True)
class Redirect:
    """To or from a file, or from text (`<<`), which then is the target."""

    operator: str
    target: Word


@dataclass(frozen=True, slots=True)
class Simple:
    words: tuple[Word, ...]
    assignments: tuple[Assignment, ...] = ()
    redirects: tuple[Redirect, ...] = ()


@dataclass(frozen=True, slots=True)
class Pipeline:
    parts: tuple["Statement", ...]


@dataclass(frozen=True, slots=True)
class Chain:
    """One after another, each only if the one before has gone well or badly."""

    parts: tuple["Statement", ...]


@dataclass(frozen=True, slots=True)
class Block:
    kind: Literal["group", "subshell", "branch", "loop", "function", "background", "fed"]  # fed: by what is not known
    body: "Script"
    name: str = ""  # of the function, or of the loop's variable
    words: tuple[Word, ...] = ()  # that the loop goes through, or that decide
    redirects: tuple[Redirect, ...] = ()


Statement = Simple | Pipeline | Chain | Block
Script = tuple[Statement, ...]


def with_redirects(statement: Statement, redirects: tuple[Redirect, ...]) -> Statement:
    """A redirection behind a row of commands is that of the last one."""
    match statement:
        case Pipeline(parts) | Chain(parts):
            return replace(statement, parts=(*parts[:-1], with_redirects(parts[-1], redirects)))
        case _:
            return replace(statement, redirects=(*statement.redirects, *redirects))


def with_words(statement: Statement, words: tuple[Word, ...]) -> Statement:
    """Words behind a redirection, likewise."""
    match statement:
        case Simple() if words:
            return replace(statement, words=(*statement.words, *words))
        case Pipeline(parts) | Chain(parts):
            return replace(statement, parts=(*parts[:-1], with_words(parts[-1], words)))
        case _:
            return statement
