"""Files of the home: who can read or change them, which leak secrets, which bring code of others."""

import os
import re
import stat
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from shlex import quote

from gateway.doctor.facts import Facts, Finding, bad, describe_error, ok, warn, worst
from gateway.wording import count, list_some
from hermes_config.redaction import HIDDEN, Redactor
from hermes_config.secrets import SECRETS, find, find_of_account
from tools.scanner import scan

_MAX_FILES = 20_000
_MAX_BYTES = 4_000_000
_MAX_NAMED = 5
_MIN_SECRET_CHARS = 8  # a shorter one could occur anywhere by chance
_OTHERS = 0o077

_INSTRUCTIONS = ("SOUL.md", "AGENTS.md", "BOOT.md", "hooks", "skills", "tools")
_CODE = ("tools", "hooks", "skills")
_NOT_STATE = {*_INSTRUCTIONS, "workspaces", "lost+found"}
_WRITTEN = ("logs", "memories", "cron", "trajectories")

# Wider than the shapes that the redactor hides: a false alarm here costs a look at one line.
_LOOKS_LIKE = {
    "a Telegram bot token": re.compile(r"(?<![0-9A-Za-z])[0-9]{8,10}:[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])"),
    "a Slack token": re.compile(r"\b(?:xox[abeprs]|xapp)-[A-Za-z0-9-]{20,}"),
    "a Discord bot token": re.compile(r"\b[MNO][A-Za-z0-9_-]{23,25}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}"),
    "an API key": re.compile(
        r"\b(?:sk-[A-Za-z0-9_-]{20,}|AIza[A-Za-z0-9_-]{35}|gh[opsu]_[A-Za-z0-9]{36}|AKIA[A-Z0-9]{16})"
    ),
    "a private key": re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----"),
}
_ASSIGNED = re.compile(rf"\b((?:{'|'.join(one.env for one in SECRETS if one.masked)})(?:_[A-Z0-9_]+)?)=\S")
_COMPILED = (b"\x7fELF", b"MZ", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")
_NETWORK = re.compile(r"\b(?:requests|httpx|aiohttp|urllib|urlopen|http\.client|socket|curl|wget|nc|netcat)\b")
_ENVIRONMENT = re.compile(
    r"os\.environ(?!b?\s*(?:\[|\.get\b|\.setdefault\b))|/proc/(?:self|\d+)/environ|\bprintenv\b|\benv\s*\||\$\(\s*env\s*\)"
)
_OUR_SECRETS = re.compile(r"\.hermes/(?:\.env|state\.db)|HERMES_HOME[^\n]{0,40}(?:\.env|state\.db)")
_SCANNED_CHARS = 200_000


def check_home(facts: Facts) -> Iterator[Finding]:
    root = facts.home.root
    if not facts.has_home:
        return
    found = root.stat()
    if found.st_uid != _owner(facts):
        yield bad(f"{root} belongs to another user", f"sudo chown -R {facts.user_id} {root}")
    if stat.S_IMODE(found.st_mode) & _OTHERS:
        mode = f"{stat.S_IMODE(found.st_mode):04o}"
        yield bad(f"Other users of this machine can open {root} (mode {mode})", f"chmod 700 {quote(str(root))}")
    else:
        yield ok(f"Only you can open {root}")


def check_parent_folders(facts: Facts) -> Iterator[Finding]:
    for folder in facts.home.root.parents:
        found = folder.stat()
        if found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX:
            yield bad(
                f"Everyone can write to {folder}, and so replace the home inside it", f"chmod o-w {quote(str(folder))}"
            )


def check_state_files(facts: Facts) -> Iterator[Finding]:
    """Check that state and secrets are ours, and closed to others."""
    root = facts.home.root
    if not facts.has_home:
        return
    owner, opened, foreign = _owner(facts), [], []
    # Most important first: a cache may hold more files than are checked.
    state = [entry for entry in root.iterdir() if entry.name not in _NOT_STATE]
    state.sort(key=lambda entry: (entry.is_dir(), entry.name != "backups", entry.name))
    for path in _walk(state):
        try:
            found = path.lstat()
        except FileNotFoundError:
            continue  # a running gateway creates and deletes files
        name = str(path.relative_to(root))
        if found.st_uid != owner:
            foreign.append(name)
        if not stat.S_ISLNK(found.st_mode) and stat.S_IMODE(found.st_mode) & _OTHERS:
            opened.append(name)
    if foreign:
        text = f"{count(len(foreign), 'file')} in the home with another owner: {list_some(foreign)}"
        yield bad(text, f"sudo chown -R {owner} {root}")
    if opened:
        level = bad if any(name.startswith((".env", "state.db", "backups/", "mcp_logins")) for name in opened) else warn
        text = f"Other users of this machine can open {count(len(opened), 'file')}: {list_some(opened)}"
        yield level(text, f"chmod -R go-rwx {quote(str(root))}")
    if not foreign and not opened:
        yield ok("Only you can open the files of state, including backups")


def check_instructions(facts: Facts) -> Iterator[Finding]:
    """Find files that other users could change to control the agent."""
    found = [finding for path in _walk(_instructions(facts)) for finding in _check_writers(path, facts)]
    yield from found[:_MAX_NAMED]
    if len(found) > _MAX_NAMED:
        text = f"The same is true of {count(len(found) - _MAX_NAMED, 'more file', 'more files')}"
        yield Finding(level=worst(found), text=text, fix=f"chmod -R go-w {quote(str(facts.home.root))}")
    if not found:
        yield ok("Nobody else can change the agent's instructions (SOUL.md, AGENTS.md, tools, hooks, skills)")


def find_secrets_in_files(facts: Facts) -> Iterator[Finding]:
    root = facts.home.root
    if not facts.has_home:
        return
    # Last, since there may be more trajectories than files that are read.
    places = [*sorted(root.glob("*config.yaml*")), *_instructions(facts), *(root / name for name in _WRITTEN)]
    found = [finding for file in _walk(places) for finding in _search_file(file, facts)]
    yield from found or [ok("No secrets in settings, logs, instructions or skills")]


def find_secrets_in_units(facts: Facts) -> Iterator[Finding]:
    """Everyone on the machine can ask systemd for the environment of a unit."""
    for unit in facts.units:
        for file in (unit, *sorted(Path(f"{unit}.d").glob("*.conf"))):
            text = _read_end(file).decode("utf-8", "replace")
            assigned = sorted({match[1] for match in _ASSIGNED.finditer(text)})
            names = [*assigned, *(name for name, _ in _find_known(text, facts) if name not in assigned)]
            if names:
                text = f"{file} contains {list_some(names)}, and everyone on this machine can read a unit"
                yield bad(text, f"move it to .env: hermes config set {names[0]}; then delete it from {file}")


def find_secrets_in_process_list(facts: Facts) -> Iterator[Finding]:
    pid = (facts.gateway or {}).get("pid")
    try:
        arguments = Path(f"/proc/{pid}/cmdline").read_text(errors="replace") if pid else ""
    except OSError:  # it has just ended, or this is not Linux
        return
    for what, _ in _find_secrets(arguments, facts):
        text = f"The gateway (pid {pid}) was started with {what} in its arguments, which everyone here can read"
        yield bad(text, "put it into .env with hermes config set, and start the gateway without it")


def find_env_copies(facts: Facts) -> Iterator[Finding]:
    for copy in sorted(facts.home.root.glob(".env?*")):
        yield warn(f"{copy.name} in the home is a copy of your secrets", f"rm {quote(str(copy))}")
    if not facts.loaded or not facts.settings.terminal.works_here:
        return
    other = Path(facts.settings.terminal.cwd).expanduser() / ".env"
    if not other.is_file() or other == facts.home.env_file or not other.stat().st_mode & 0o044:
        return
    if names := [what for what, _ in _find_secrets(_read_end(other).decode("utf-8", "replace"), facts)]:
        yield bad(
            f"Other users of this machine can read {list_some(names)} in {other}", f"chmod 600 {quote(str(other))}"
        )


def hide_secrets(text: str, redactor: Redactor) -> str:
    """Hide secrets in a finding: it quotes wrong values, and one may be a token that was put there by mistake."""
    text = redactor.clean(text)
    for pattern in _LOOKS_LIKE.values():
        text = pattern.sub(HIDDEN, text)
    return text


def list_own_code(facts: Facts) -> Iterator[Finding]:
    root = facts.home.root
    hooks = (f"hooks/{file.parent.name}" for file in root.glob("hooks/*/HOOK.yaml"))
    if names := sorted((*(f"tools/{file.name}" for file in (root / "tools").glob("*.py")), *hooks)):
        yield ok(f"Your code that runs inside Hermes, with all its rights and secrets: {list_some(names)}")
    else:
        yield ok("No added code runs inside Hermes")


def find_risky_code(facts: Facts) -> Iterator[Finding]:
    root = facts.home.root
    for file in _walk(root / folder for folder in _CODE):
        if "__pycache__" not in file.parts:
            yield from _check_code(file, str(file.relative_to(root)), root)


def _walk(places: Iterable[Path]) -> Iterator[Path]:
    """Yield the places that exist and everything below them, without following links; a limited number."""

    def walk() -> Iterator[Path]:
        for place in places:
            if place.exists() or place.is_symlink():
                yield place
            if place.is_dir() and not place.is_symlink():
                for folder, folders, names in os.walk(place):
                    yield from (Path(folder, name) for name in sorted((*folders, *names)))

    return islice(walk(), _MAX_FILES)


def _read_end(file: Path) -> bytes:
    """Return the last part of a regular file: the newest of a long log. Empty for anything else."""
    if not file.is_file():
        return b""
    with file.open("rb") as opened:
        opened.seek(max(0, file.stat().st_size - _MAX_BYTES))
        return opened.read(_MAX_BYTES)


def _owner(facts: Facts) -> int:
    """Return who should own the home: this user, but root may check the home of another."""
    root = facts.home.root
    return root.stat().st_uid if facts.user_id == 0 and root.exists() else facts.user_id


def _instructions(facts: Facts) -> list[Path]:
    places = [facts.home.root / name for name in _INSTRUCTIONS]
    if facts.loaded and facts.settings.terminal.works_here:
        places.append(Path(facts.settings.terminal.cwd).expanduser() / "AGENTS.md")
    return list(dict.fromkeys(places))


def _check_writers(path: Path, facts: Facts) -> Iterator[Finding]:
    if not path.exists():
        return  # a broken link
    found, owner = path.stat(), _owner(facts)
    if found.st_uid not in (0, owner):
        text = f"{path} gives the agent instructions, but belongs to another user"
        yield bad(text, f"sudo chown {owner} {path}")
    elif found.st_mode & stat.S_IWOTH:
        yield bad(
            f"Everyone on this machine can change {path}, which gives the agent instructions",
            f"chmod go-w {quote(str(path))}",
        )
    elif found.st_mode & stat.S_IWGRP:
        yield warn(f"The group can change {path}, which gives the agent instructions", f"chmod go-w {quote(str(path))}")


def _search_file(file: Path, facts: Facts) -> Iterator[Finding]:
    try:
        content = _read_end(file)
    except OSError as error:
        yield warn(f"Could not search {file} for secrets: {describe_error(error)}")
        return
    text = content.decode("utf-8", "replace")
    for what, position in _find_secrets(text, facts):
        is_whole = file.stat().st_size == len(content)
        where = f"{file} line {text.count(chr(10), 0, position) + 1}" if is_whole else f"The end of {file}"
        fix = "delete it there, and replace it where it came from"
        if known := find(what) or find_of_account(what):
            fix = f"delete it there, get a new one ({known.where_to_get}), then: hermes config set {known.env}"
        yield bad(f"{where} contains {what}", fix)


def _find_secrets(text: str, facts: Facts) -> list[tuple[str, int]]:
    """Return our own secrets in a text by name and the first of each kind of others', each with its position."""
    found = _find_known(text, facts)
    for name, _ in found:
        text = text.replace(facts.secrets[name], " " * len(facts.secrets[name]))
    for kind, pattern in _LOOKS_LIKE.items():
        if match := pattern.search(text):
            found.append((f"what looks like {kind}", match.start()))
            text = pattern.sub(lambda match: " " * len(match[0]), text)
    if others := Redactor().find(text):
        found.append(("what looks like a secret", others[0][0]))
    return found


def _find_known(text: str, facts: Facts) -> list[tuple[str, int]]:
    long = {name: value for name, value in facts.secrets.items() if len(value) >= _MIN_SECRET_CHARS}
    return [(name, text.index(value)) for name, value in long.items() if value in text]


def _check_code(file: Path, name: str, root: Path) -> Iterator[Finding]:
    fix = f"read it before you trust it: less {file}"
    if file.is_symlink() and not Path(os.path.realpath(file)).is_relative_to(os.path.realpath(root)):
        yield warn(f"{name} links to a file outside the home, which others may be able to change", f"ls -l {file}")
    try:
        content = _read_end(file)
    except OSError as error:
        yield warn(f"{name} could not be read: {describe_error(error)}")
        return
    if content.startswith(_COMPILED) or (b"\0" in content and file.suffix in (".py", ".sh", ".pyc", ".so", ".md")):
        yield warn(f"{name} is compiled, so nobody can read what it does", f"rm {file}")
        return
    text = content.decode("utf-8", "replace")
    if _NETWORK.search(text) and _ENVIRONMENT.search(text):
        yield bad(f"{name} reads the whole environment and uses the network: it could send your secrets away", fix)
    elif _OUR_SECRETS.search(text):
        yield bad(f"{name} accesses the secrets or the database of Hermes", fix)
    elif b"\0" not in content and (found := scan(text[:_SCANNED_CHARS])):
        reasons = list(dict.fromkeys(one.reason for one in found))
        yield warn(f"{name} should be read again: {'; '.join(reasons[:_MAX_NAMED])} ({found[0].excerpt})", fix)
