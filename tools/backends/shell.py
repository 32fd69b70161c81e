"""What one shell leaves to the next: the folder it ended in, and what it exported.

It is handed on through bash's own start-up file (BASH_ENV) and a trap for its end, so that bash is given the command
itself as it is, and does with it what `bash -c` does. Only `trap -p` and `set -v` show that there is a trap.
"""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.backends.base import ShellState
from tools.backends.supervisor_child import SECRET_DESCRIPTOR

MAX_VARIABLES_BYTES = 64_000
MAX_REPORT_BYTES = 512_000
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# What a shell makes by itself, or does not let anybody set.
_ITS_OWN = {"_", "BASHOPTS", "BASH_ENV", "EUID", "PPID", "PWD", "SHELLOPTS", "SHLVL", "UID"}

# Whatever the command has set or redefined meanwhile, nothing of this is seen, and the exit code stays what it is.
_AT_THE_END = (
    '{ set +x; (umask 077; { builtin pwd && builtin printf "\\0" && command -p env -0 && builtin printf "\\0"; } '
    ">| %s) || :; } >/dev/null 2>&1"
)

# The password is piped in only where sudo would ask: a command that needs none must not find it in its input.
_SUDO = f"""\
sudo() {{
  command sudo -S -p '' -v < /dev/fd/{SECRET_DESCRIPTOR} > /dev/null 2>&1 || :
  if command sudo -n -v 2> /dev/null || [ -t 0 ]; then command sudo "$@"
  else command sudo -S -p '' "$@" < <(cat /dev/fd/{SECRET_DESCRIPTOR} -); fi
}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shell:
    """How a shell begins, and where it writes down how it ended; without a `report` that is beside its output."""

    variables: Mapping[str, str | None]
    report: Path | None = None  # on our side
    report_named: str = ""  # the same file as the shell names it


def start_up(shell: Shell, report: str, *, has_password: bool) -> bytes:
    """What bash reads before the command. Without a `report` it does not tell how it ended."""
    lines = ["unset BASH_ENV"]
    for name, value in shell.variables.items():
        lines.append(f"unset {name}" if value is None else f"export {name}={shlex.quote(value)}")
    lines = [f"{line} 2>/dev/null" for line in lines]
    if has_password:
        lines.append(_SUDO)
    if report:
        lines.append(f"trap {shlex.quote(_AT_THE_END % shlex.quote(report))} EXIT")
    return _encoded("\n".join([*lines, ""]))


def read_report(report: bytes, given: Mapping[str, str]) -> ShellState | None:
    """None when it is not complete. Variables are told by how they differ from those that were `given`."""
    folder, found, rest = report.partition(b"\n\0")
    if not found or not folder.startswith(b"/") or not (rest == b"\0" or rest.endswith(b"\0\0")):
        return None
    entries = rest.decode("utf-8", "surrogateescape").split("\0")
    exported = {name: value for name, is_one, value in (entry.partition("=") for entry in entries) if is_one}
    changed: dict[str, str | None] = {name: value for name, value in exported.items() if given.get(name) != value}
    changed |= {name: None for name in given if name not in exported}
    kept = {name: value for name, value in changed.items() if _NAME.fullmatch(name) and name not in _ITS_OWN}
    is_small = sum(len(_encoded(f"{name}={value}")) for name, value in kept.items()) <= MAX_VARIABLES_BYTES
    return ShellState(folder=folder.decode("utf-8", "surrogateescape"), variables=kept if is_small else None)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
