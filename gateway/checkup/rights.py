"""What the agent could do to this machine, and with which rights."""

import re
from collections.abc import Iterator
from pathlib import Path

from gateway.checkup.facts import Facts
from gateway.checkup.finding import Finding, bad, ok, warn
from gateway.checkup.words import some

PART = "rights"

_SOUNDS_SECRET = re.compile(r"TOKEN|KEY|SECRET|PASSW|CREDENTIAL", re.I)
_BROAD = ("/", "/etc", "/home", "/root", "/var")


def root(facts: Facts) -> Iterator[Finding]:
    pid = (facts.gateway or {}).get("pid")
    running_as = _owner_of_process(pid) if pid else None
    fix = "run it as a user of its own; deploy/hermes-gateway.system.service does"
    if running_as == 0:
        yield bad(PART, "The gateway runs as root: whatever goes wrong in it goes wrong for the whole machine", fix)
    elif running_as is None and facts.user_id == 0:
        yield warn(PART, "You are root: a gateway that you start has all rights on this machine", fix)
    else:
        yield ok(PART, "Hermes does not run as root")


def backend(facts: Facts) -> Iterator[Finding]:
    if facts.settings.terminal.backend == "local":
        text = "The owner's commands and files are on this machine itself, with all that this user may do"
        yield warn(PART, f"{text} (terminal.backend is local)", "hermes config set terminal.backend bubblewrap")
    else:
        yield ok(PART, "The owner's commands run in a sandbox")


def sandbox(facts: Facts) -> Iterator[Finding]:
    if facts.sandbox_problem:
        text = f"There is no sandbox, so nobody but the owner is given tools that need one. {facts.sandbox_problem}"
        yield warn(PART, text, "apt install bubblewrap")
    elif facts.settings.terminal.bubblewrap.network:
        text = "Commands in the sandbox reach the network, and can send away whatever they were given"
        yield warn(PART, text, "hermes config set terminal.bubblewrap.network false")
    else:
        yield ok(PART, "Everybody else's commands run in a sandbox without a network")


def passed_on(facts: Facts) -> Iterator[Finding]:
    names = facts.settings.terminal.env_passthrough
    ours = [name for name in names if name in facts.secrets]
    others = [name for name in names if name not in ours and _SOUNDS_SECRET.search(name)]
    fix = "take it out: hermes config set terminal.env_passthrough …"
    if ours:
        yield bad(PART, f"Commands are given secrets of Hermes itself: {some(ours)} (terminal.env_passthrough)", fix)
    if others:
        yield warn(PART, f"Commands are given what looks like a secret: {some(others)} (terminal.env_passthrough)", fix)
    if not ours and not others:
        yield ok(PART, "No secret is passed on to commands")


def sudo(facts: Facts) -> Iterator[Finding]:
    if "SUDO_PASSWORD" in facts.secrets:
        text = "SUDO_PASSWORD is set: the agent's commands can become root on this machine"
        yield warn(PART, text, f"delete its line in {facts.home.env_file}")


def files_sent(facts: Facts) -> Iterator[Finding]:
    """Folders from which files are sent into chats."""
    for name in facts.settings.media.allowed_dirs:
        folder = Path(name).expanduser()
        if str(folder) in _BROAD or folder == Path.home() or facts.home.root.is_relative_to(folder):
            text = f"media.allowed_dirs holds {name}, which has more in it than is meant to be sent"
            yield bad(PART, text, "name narrower folders: hermes config set media.allowed_dirs …")


def _owner_of_process(pid: object) -> int | None:
    try:
        status = Path(f"/proc/{pid}/status").read_text()  # the folder is root's for who hides its memory, as we do
    except OSError:  # it has just ended, or this is no Linux
        return None
    found = re.search(r"^Uid:\s+\d+\s+(\d+)", status, re.M)
    return int(found[1]) if found else None
