"""Commands that must and must not be asked about, by family, as they stand in the text files beside this one."""

from collections.abc import Mapping
from pathlib import Path

from tools.shell_guard.guard import Judgement, judge

_HERE = Path(__file__).parent


def commands_of(file: str) -> dict[str, list[str]]:
    """By family; a line break inside of a command is written ⏎."""
    families: dict[str, list[str]] = {}
    family = ""
    for line in (_HERE / file).read_text().splitlines()[1:]:
        if line.startswith("## "):
            family = line[3:]
        elif line:
            families.setdefault(family, []).append(line.replace("⏎", "\n"))
    return families


def judged(command: str, written: Mapping[str, str] | None = None) -> Judgement:
    """In a folder where every file is there but those whose name says that they are new."""
    names = ("new", "page.html", "server.log")
    return judge(
        command,
        cwd="/home/me/proj",
        home="/home/me",
        guarded=("/home/me/.hermes",),
        is_there=lambda path: not any(name in path for name in names),
        written=written,
    )
