"""Who else on this machine may read what we keep, or change what we obey."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from gateway.checkup.facts import Facts
from gateway.checkup.finding import Finding, bad, ok, warn, worst
from gateway.checkup.walk import files_below
from gateway.checkup.words import counted, some

PART = "permissions"

_INSTRUCTIONS = ("SOUL.md", "AGENTS.md", "BOOT.md", "hooks", "skills", "tools")
_MOST_NAMED = 5
_OF_OTHERS = 0o077
_NOT_KEPT = {*_INSTRUCTIONS, "workspaces", "lost+found"}  # what we obey, and what is the users' own


def home_itself(facts: Facts) -> Iterator[Finding]:
    root = facts.home.root
    if facts.home_problem or not root.exists():
        return
    found = root.stat()
    if found.st_uid != _owner(facts):
        yield bad(PART, f"{root} belongs to another user", f"sudo chown -R {facts.user_id} {root}")
    if stat.S_IMODE(found.st_mode) & _OF_OTHERS:
        yield bad(PART, f"{root} is open to others on this machine (mode {_mode(found)})", f"chmod 700 {root}")
    else:
        yield ok(PART, f"{root} is closed to others")


def folders_above(facts: Facts) -> Iterator[Finding]:
    """Whoever may write to a folder above the home can put another home in its place."""
    for folder in facts.home.root.parents:
        found = folder.stat()
        if found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX:
            yield bad(PART, f"Everybody may write to {folder}, and so replace the home in it", f"chmod o-w {folder}")


def kept_files(facts: Facts) -> Iterator[Finding]:
    """State and secrets: 0600, and ours."""
    root = facts.home.root
    if facts.home_problem or not root.exists():
        return
    owner = _owner(facts)
    opened: list[str] = []
    foreign: list[str] = []
    for path in files_below(_kept(root)):
        try:
            found = path.lstat()
        except FileNotFoundError:
            continue  # a running gateway makes files, and takes them away
        name = str(path.relative_to(root))
        if found.st_uid != owner:
            foreign.append(name)
        if not stat.S_ISLNK(found.st_mode) and stat.S_IMODE(found.st_mode) & _OF_OTHERS:
            opened.append(name)
    if foreign:
        text = f"{counted(len(foreign), 'file', 'files')} in the home of another owner: {some(foreign)}"
        yield bad(PART, text, f"sudo chown -R {owner} {root}")
    if opened:
        text = f"{counted(len(opened), 'file is', 'files are')} open to others on this machine: {some(opened)}"
        level = bad if any(_is_secret(name) for name in opened) else warn
        yield level(PART, text, f"chmod -R go-rwx {root}")
    if not foreign and not opened:
        yield ok(PART, "Every file of state is open to its owner alone, backups included")


def instructions(facts: Facts) -> Iterator[Finding]:
    """Whoever can change them speaks with our voice."""
    changeable = [finding for path in files_below(obeyed(facts)) for finding in _changeable(path, facts)]
    yield from changeable[:_MOST_NAMED]
    if len(changeable) > _MOST_NAMED:
        text = f"So it is with {len(changeable) - _MOST_NAMED} more files"
        yield Finding(level=worst(changeable), part=PART, text=text, fix=f"chmod -R go-w {facts.home.root}")
    if not changeable:
        yield ok(PART, "Nobody else may change what the agent obeys (SOUL.md, AGENTS.md, tools, hooks, skills)")


def obeyed(facts: Facts) -> list[Path]:
    """What we run, and what the model is told at the start."""
    places = [facts.home.root / name for name in _INSTRUCTIONS]
    if facts.loaded:
        places.append(Path(facts.settings.terminal.cwd).expanduser() / "AGENTS.md")
    return list(dict.fromkeys(places))


def _changeable(path: Path, facts: Facts) -> Iterator[Finding]:
    if not path.exists():
        return  # a link that leads nowhere
    found, owner = path.stat(), _owner(facts)
    if found.st_uid not in (0, owner):
        text = f"{path}, which the agent obeys, belongs to another user, who may change it"
        yield bad(PART, text, f"sudo chown {owner} {path}")
    elif found.st_mode & stat.S_IWOTH:
        yield bad(PART, f"Everybody on this machine may change {path}, which the agent obeys", f"chmod go-w {path}")
    elif found.st_mode & stat.S_IWGRP:
        yield warn(PART, f"The group may change {path}, which the agent obeys", f"chmod go-w {path}")


def _kept(root: Path) -> list[Path]:
    """What matters most comes first: a cache may hold more files than are looked at."""
    entries = [entry for entry in root.iterdir() if entry.name not in _NOT_KEPT]
    return sorted(entries, key=lambda entry: (entry.is_dir(), entry.name != "backups", entry.name))


def _owner(facts: Facts) -> int:
    """Whose the home should be: ours, unless root looks after that of another."""
    root = facts.home.root
    return root.stat().st_uid if facts.user_id == 0 and root.exists() else facts.user_id


def _is_secret(name: str) -> bool:
    return name.startswith((".env", "state.db", "backups/"))


def _mode(found: os.stat_result) -> str:
    return f"{stat.S_IMODE(found.st_mode):04o}"
