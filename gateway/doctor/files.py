"""Files below a few places, and their text, within limits."""

import os
import re
import stat
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from gateway.doctor.facts import Facts, Finding, bad, counted, ok, plain_reason, some, warn, worst
from hermes_config.secrets import SECRETS, find, find_of_account

_MOST_FILES = 20_000
_MOST_BYTES = 4_000_000


def files_below(places: Iterable[Path]) -> Iterator[Path]:
    """The places that are there, and everything in them, folders too; links are not followed. So many at most."""
    return islice(_walk(places), _MOST_FILES)


def end_of(file: Path) -> bytes:
    """The last of a file: of a long log that is the news. Nothing of what is no ordinary file."""
    if not file.is_file():
        return b""
    with file.open("rb") as opened:
        opened.seek(max(0, file.stat().st_size - _MOST_BYTES))
        return opened.read(_MOST_BYTES)


def _walk(places: Iterable[Path]) -> Iterator[Path]:
    for place in places:
        if not place.exists() and not place.is_symlink():
            continue
        yield place
        if place.is_dir() and not place.is_symlink():
            for folder, folders, files in os.walk(place):
                yield from (Path(folder, name) for name in sorted((*folders, *files)))


PERMISSIONS = "permissions"

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
        yield bad(PERMISSIONS, f"{root} belongs to another user", f"sudo chown -R {facts.user_id} {root}")
    if stat.S_IMODE(found.st_mode) & _OF_OTHERS:
        yield bad(PERMISSIONS, f"{root} is open to others on this machine (mode {_mode(found)})", f"chmod 700 {root}")
    else:
        yield ok(PERMISSIONS, f"{root} is closed to others")


def folders_above(facts: Facts) -> Iterator[Finding]:
    """Whoever may write to a folder above the home can put another home in its place."""
    for folder in facts.home.root.parents:
        found = folder.stat()
        if found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX:
            yield bad(
                PERMISSIONS, f"Everybody may write to {folder}, and so replace the home in it", f"chmod o-w {folder}"
            )


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
        yield bad(PERMISSIONS, text, f"sudo chown -R {owner} {root}")
    if opened:
        text = f"{counted(len(opened), 'file is', 'files are')} open to others on this machine: {some(opened)}"
        level = bad if any(_is_secret(name) for name in opened) else warn
        yield level(PERMISSIONS, text, f"chmod -R go-rwx {root}")
    if not foreign and not opened:
        yield ok(PERMISSIONS, "Every file of state is open to its owner alone, backups included")


def instructions(facts: Facts) -> Iterator[Finding]:
    """Whoever can change them speaks with our voice."""
    changeable = [finding for path in files_below(obeyed(facts)) for finding in _changeable(path, facts)]
    yield from changeable[:_MOST_NAMED]
    if len(changeable) > _MOST_NAMED:
        text = f"So it is with {len(changeable) - _MOST_NAMED} more files"
        yield Finding(level=worst(changeable), part=PERMISSIONS, text=text, fix=f"chmod -R go-w {facts.home.root}")
    if not changeable:
        yield ok(PERMISSIONS, "Nobody else may change what the agent obeys (SOUL.md, AGENTS.md, tools, hooks, skills)")


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
        yield bad(PERMISSIONS, text, f"sudo chown {owner} {path}")
    elif found.st_mode & stat.S_IWOTH:
        yield bad(
            PERMISSIONS, f"Everybody on this machine may change {path}, which the agent obeys", f"chmod go-w {path}"
        )
    elif found.st_mode & stat.S_IWGRP:
        yield warn(PERMISSIONS, f"The group may change {path}, which the agent obeys", f"chmod go-w {path}")


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


LEAKS = "secrets"

_SHORTEST_CHARS = 8  # a shorter one could stand anywhere by chance
_COVER = "(a secret)"
_WRITTEN = ("logs", "memories", "cron", "trajectories")
_LOOKS_LIKE = {
    "a Telegram bot token": r"(?<![0-9A-Za-z])[0-9]{8,10}:[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])",
    "a Slack token": r"\b(?:xox[abeprs]|xapp)-[A-Za-z0-9-]{20,}",
    "a Discord bot token": r"\b[MNO][A-Za-z0-9_-]{23,25}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}",
    "an API key": r"\b(?:sk-[A-Za-z0-9_-]{20,}|AIza[A-Za-z0-9_-]{35}|gh[opsu]_[A-Za-z0-9]{36}|AKIA[A-Z0-9]{16})",
    "a private key": r"-----BEGIN [A-Z ]*PRIVATE KEY-----",
}
_PATTERNS = {what: re.compile(pattern) for what, pattern in _LOOKS_LIKE.items()}
_ASSIGNED = re.compile(rf"\b((?:{'|'.join(one.env for one in SECRETS if one.masked)})(?:_[A-Z0-9_]+)?)=\S")


def in_files(facts: Facts) -> Iterator[Finding]:
    root = facts.home.root
    if facts.home_problem or not root.exists():
        return
    # There may be more trajectories than files that are looked at.
    places = [*sorted(root.glob("*config.yaml*")), *obeyed(facts), *(root / name for name in _WRITTEN)]
    found = [finding for file in files_below(places) for finding in _in_file(file, facts)]
    yield from found
    if not found:
        yield ok(LEAKS, "No secret stands in the settings, logs, instructions or skills")


def in_units(facts: Facts) -> Iterator[Finding]:
    """Whoever is on the machine can ask systemd for what a unit sets."""
    for unit in facts.units:
        for file in (unit, *sorted(Path(f"{unit}.d").glob("*.conf"))):
            text = end_of(file).decode("utf-8", "replace")
            named = sorted({match[1] for match in _ASSIGNED.finditer(text)})
            known = [name for name, value in facts.secrets.items() if _is_in(value, text) and name not in named]
            if named or known:
                names = [*named, *known]
                text = f"{file} holds {some(names)}, and everybody on this machine can read a unit"
                yield bad(LEAKS, text, f"move it to .env: hermes config set {names[0]}; then delete it in {file}")


def in_the_process_list(facts: Facts) -> Iterator[Finding]:
    pid = (facts.gateway or {}).get("pid")
    try:
        arguments = Path(f"/proc/{pid}/cmdline").read_text(errors="replace") if pid else ""
    except OSError:  # it has just ended, or this is no Linux
        return
    for what, _ in _found(arguments, facts):
        text = f"The gateway (pid {pid}) was started with {what} in its arguments: everybody here can read them"
        yield bad(LEAKS, text, "put it into .env with hermes config set, and start the gateway without it")


def copies(facts: Facts) -> Iterator[Finding]:
    """A second .env is one that nobody remembers to close, or to change."""
    for copy in sorted(facts.home.root.glob(".env?*")):
        yield warn(LEAKS, f"{copy.name} in the home is a copy of your secrets", f"rm {copy}")
    if not facts.loaded:
        return
    elsewhere = Path(facts.settings.terminal.cwd).expanduser() / ".env"
    if not elsewhere.is_file() or elsewhere == facts.home.env_file or not elsewhere.stat().st_mode & 0o044:
        return
    named = [what for what, _ in _found(end_of(elsewhere).decode("utf-8", "replace"), facts)]
    if named:
        yield bad(LEAKS, f"{elsewhere} can be read by others and holds {some(named)}", f"chmod 600 {elsewhere}")


def covered(text: str, facts: Facts) -> str:
    """Without secrets: a wrong value is quoted where it is told, and may be a token that was put there by mistake."""
    for secret in facts.secrets.values():
        if _is_in(secret, text):
            text = text.replace(secret, _COVER)
    for pattern in _PATTERNS.values():
        text = pattern.sub(_COVER, text)
    return text


def _in_file(file: Path, facts: Facts) -> Iterator[Finding]:
    try:
        content = end_of(file)
    except OSError as error:
        yield warn(LEAKS, f"{file} could not be searched for secrets: {plain_reason(error)}")
        return
    text = content.decode("utf-8", "replace")
    for what, position in _found(text, facts):
        is_whole = file.stat().st_size == len(content)
        where = f"{file} line {text.count(chr(10), 0, position) + 1}" if is_whole else f"The end of {file}"
        yield bad(LEAKS, f"{where} holds {what}", _mend(what))


def _found(text: str, facts: Facts) -> list[tuple[str, int]]:
    """Which secrets are in a text, and where the first of each kind is."""
    known = [(name, text.index(value)) for name, value in facts.secrets.items() if _is_in(value, text)]
    values = [value for value in facts.secrets.values() if len(value) >= _SHORTEST_CHARS]
    alike = [
        (f"what looks like {what}", match.start())
        for what, pattern in _PATTERNS.items()
        if (match := next((one for one in pattern.finditer(text) if not any(v in one[0] for v in values)), None))
    ]
    return known + alike


def _is_in(secret: str, text: str) -> bool:
    return len(secret) >= _SHORTEST_CHARS and secret in text


def _mend(what: str) -> str:
    known = find(what) or find_of_account(what)
    if known is None:
        return "delete it there, and have it replaced where it came from"
    return f"delete it there, get a new one ({known.where_to_get}), then: hermes config set {known.env}"


DROPINS = "code"
FOLDERS = ("tools", "hooks", "skills")

_COMPILED = (b"\x7fELF", b"MZ", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")
_NETWORK = re.compile(r"\b(?:requests|httpx|aiohttp|urllib|urlopen|http\.client|socket|curl|wget|nc|netcat)\b")
_ENVIRONMENT = re.compile(
    r"os\.environ(?!b?\s*(?:\[|\.get\b|\.setdefault\b))|/proc/(?:self|\d+)/environ|\bprintenv\b|\benv\s*\||\$\(\s*env\s*\)"
)
_OUR_SECRETS = re.compile(r"\.hermes/(?:\.env|state\.db)|HERMES_HOME[^\n]{0,40}(?:\.env|state\.db)")
_BLIND = re.compile(
    r"\b(?:curl|wget)\b[^\n|]{0,500}\|\s*(?:sudo\s+)?(?:ba|z|da)?sh\b|base64\s+(?:-d|--decode)[^\n|]{0,500}\|\s*(?:ba|z)?sh\b"
    r"|\b(?:exec|eval)\s*\(\s*(?:\w+\.)*(?:b64decode|decompress|unhexlify|urlopen)"
)


def in_our_process(facts: Facts) -> Iterator[Finding]:
    names = sorted(file.name for file in (facts.home.root / "tools").glob("*.py"))
    if names:
        yield ok(
            DROPINS, f"Runs inside of Hermes, with all its rights and secrets: {some([f'tools/{n}' for n in names])}"
        )
    else:
        yield ok(DROPINS, "No code but our own runs inside of Hermes")


def risky(facts: Facts) -> Iterator[Finding]:
    root = facts.home.root
    for file in files_below(root / folder for folder in FOLDERS):
        if "__pycache__" not in file.parts:
            yield from _risks(file, str(file.relative_to(root)), root)


def _risks(file: Path, name: str, root: Path) -> Iterator[Finding]:
    look = f"read it before you trust it: less {file}"
    if file.is_symlink() and not Path(os.path.realpath(file)).is_relative_to(os.path.realpath(root)):
        yield warn(DROPINS, f"{name} is a link that leads out of the home, to what others may change", f"ls -l {file}")
    try:
        content = end_of(file)
    except OSError as error:
        yield warn(DROPINS, f"{name} could not be read: {plain_reason(error)}")
        return
    if content.startswith(_COMPILED) or (b"\0" in content and file.suffix in (".py", ".sh", ".pyc", ".so", ".md")):
        yield warn(DROPINS, f"{name} is compiled: nobody can read what it does", f"rm {file}")
        return
    text = content.decode("utf-8", "replace")
    if _NETWORK.search(text) and _ENVIRONMENT.search(text):
        yield bad(
            DROPINS, f"{name} takes the whole environment and uses the network: it may send your secrets away", look
        )
    elif _OUR_SECRETS.search(text):
        yield bad(DROPINS, f"{name} reaches for the secrets or the database of Hermes", look)
    if _BLIND.search(text):
        yield warn(DROPINS, f"{name} runs what it fetches or hides, unseen", look)
