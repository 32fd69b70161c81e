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
class Opaque:
    """Decided when it runs; the scripts are those inside it, which run all the same."""

    scripts: tuple["Script", ...] = ()
    front: str = ""  # of what it becomes, where that is known


Piece = LiteralText | Variable | Opaque
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


Kind = Literal["pipeline", "chain", "group", "subshell", "branch", "loop", "function", "background", "fed"]


@dataclass(frozen=True, slots=True)
class Block:
    """Several statements. In a chain each runs only if the one before has gone well or badly."""

    kind: Kind
    body: "Script"
    name: str = ""  # of the function, or of the loop's variable
    words: Word = ()  # that the loop goes through, or that decide
    redirects: tuple[Redirect, ...] = ()


Statement = Simple | Block
Script = tuple[Statement, ...]


def with_more(statement: Statement, redirects: tuple[Redirect, ...], words: tuple[Word, ...] = ()) -> Statement:
    """Add redirections and words. Behind a row of commands they belong to the last one."""
    match statement:
        case Block(kind="pipeline" | "chain", body=body):
            return replace(statement, body=(*body[:-1], with_more(body[-1], redirects, words)))
        case Simple():
            statement = replace(statement, words=(*statement.words, *words))
    return replace(statement, redirects=(*statement.redirects, *redirects))
