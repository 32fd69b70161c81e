"""Secrets where they do not belong. Says where one is and which, never what it is."""

import re
from collections.abc import Iterator
from pathlib import Path

from gateway.checkup.facts import Facts
from gateway.checkup.finding import Finding, bad, ok, warn
from gateway.checkup.permissions import obeyed
from gateway.checkup.walk import end_of, files_below
from gateway.checkup.words import plain_reason, some
from hermes_config.secrets import SECRETS, find, find_of_account

PART = "secrets"

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
        yield ok(PART, "No secret stands in the settings, logs, instructions or skills")


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
                yield bad(PART, text, f"move it to .env: hermes config set {names[0]}; then delete it in {file}")


def in_the_process_list(facts: Facts) -> Iterator[Finding]:
    pid = (facts.gateway or {}).get("pid")
    try:
        arguments = Path(f"/proc/{pid}/cmdline").read_text(errors="replace") if pid else ""
    except OSError:  # it has just ended, or this is no Linux
        return
    for what, _ in _found(arguments, facts):
        text = f"The gateway (pid {pid}) was started with {what} in its arguments: everybody here can read them"
        yield bad(PART, text, "put it into .env with hermes config set, and start the gateway without it")


def copies(facts: Facts) -> Iterator[Finding]:
    """A second .env is one that nobody remembers to close, or to change."""
    for copy in sorted(facts.home.root.glob(".env?*")):
        yield warn(PART, f"{copy.name} in the home is a copy of your secrets", f"rm {copy}")
    if not facts.loaded:
        return
    elsewhere = Path(facts.settings.terminal.cwd).expanduser() / ".env"
    if not elsewhere.is_file() or elsewhere == facts.home.env_file or not elsewhere.stat().st_mode & 0o044:
        return
    named = [what for what, _ in _found(end_of(elsewhere).decode("utf-8", "replace"), facts)]
    if named:
        yield bad(PART, f"{elsewhere} can be read by others and holds {some(named)}", f"chmod 600 {elsewhere}")


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
        yield warn(PART, f"{file} could not be searched for secrets: {plain_reason(error)}")
        return
    text = content.decode("utf-8", "replace")
    for what, position in _found(text, facts):
        is_whole = file.stat().st_size == len(content)
        where = f"{file} line {text.count(chr(10), 0, position) + 1}" if is_whole else f"The end of {file}"
        yield bad(PART, f"{where} holds {what}", _mend(what))


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
