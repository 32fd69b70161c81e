"""What people are told about files of theirs that could not be taken in as they meant it. Pure."""

from collections.abc import Sequence

from gateway.messages import Media
from tools.parts import one_line

TOO_MANY = "no more than"
"""How the problem of files beyond a limit begins: it is told once for all of them."""
_MAX_NAMED = 5
_NOT_YET = {"audio": "I cannot listen to audio yet", "video": "I cannot watch videos yet"}
_UNSEEN = "The model in use cannot see pictures"
_NAMES = "\0"  # where they come in; in no line of words


def notice(files: Sequence[Media], *, sees: bool) -> str:
    """One line for each reason, naming the files; empty when there is nothing to tell."""
    named: dict[str, list[str]] = {}
    for file in files:
        if why := _why(file, sees=sees):
            named.setdefault(why, []).append(_name(file))
    return "\n".join(_line(why, names) for why, names in named.items())


def _why(file: Media, *, sees: bool) -> str:
    if file.sticker:
        return ""
    if file.problem:
        who = _NAMES if file.problem.startswith(TOO_MANY) else _name(file)  # "it" is one of them
        return f"I could not read {who}: {one_line(file.problem, 300)}."
    if file.partial:
        return f"I read only the beginning of {_NAMES}: there is more than I take in at once."
    if file.kind in _NOT_YET:
        return f"{_NOT_YET[file.kind]}: I know of {_NAMES} only by name."
    return f"{_UNSEEN}: it knows of {_NAMES} only by name." if file.kind == "image" and not sees else ""


def _name(file: Media) -> str:
    return one_line(file.name, 100) or f"the {file.kind}"


def _line(why: str, names: Sequence[str]) -> str:
    more = [f"{len(names) - _MAX_NAMED} more"] if len(names) > _MAX_NAMED else []
    shown = [*names[:_MAX_NAMED], *more]
    return why.replace(_NAMES, " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1]))))
