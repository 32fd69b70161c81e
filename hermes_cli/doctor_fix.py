"""`hermes doctor --fix`: run the commands that findings name, one by one, each after a yes."""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterable

import click

from gateway.doctor.facts import Finding

# Each changes what the finding is about and then ends; anything else is for a human to read, and to run.
_RUNNABLE = (
    ("chmod",),
    ("rm",),
    ("hermes", "config", "set"),
    ("hermes", "config", "unset"),
    ("hermes", "gateway", "install"),
    ("systemctl",),
    ("loginctl", "enable-linger"),
)
_AS_ROOT = (("apt", "install"), ("timedatectl", "set-ntp"))


def read_command(fix: str) -> list[str]:
    """Return the words of a fix that is one complete command which may be run here; else none."""
    try:
        words = shlex.split(fix)
    except ValueError:
        return []
    allowed = (*_RUNNABLE, *_AS_ROOT) if os.geteuid() == 0 else _RUNNABLE
    is_known = any(tuple(words[: len(beginning)]) == beginning for beginning in allowed)
    return words if is_known and not any("…" in word or word[-1:] in ",;:" for word in words) else []


def fix_all(findings: Iterable[Finding]) -> None:
    """Ask about each finding that can be fixed, fix it, and say what was done."""
    seen: set[str] = set()
    for finding in findings:
        command = read_command(finding.fix) if finding.level != "ok" else []
        if not command or finding.fix in seen:
            continue
        seen.add(finding.fix)
        click.echo(finding.text)
        if not click.confirm(f"  Run `{finding.fix}`?", default=True):
            click.echo("  Left as it is.")
        elif problem := _run(command):
            click.echo(f"  Failed: {problem}")
        else:
            click.echo("  Done.")
    if not seen:
        click.echo("Nothing here can be fixed by a command.")


def _run(command: list[str]) -> str:
    """Run it at this terminal, since it may ask for a secret; return why it failed."""
    own = [sys.executable, "-m", "hermes_cli"] if command[0] == "hermes" else command[:1]
    try:
        done = subprocess.run([*own, *command[1:]], check=False, stderr=subprocess.PIPE, text=True)
    except OSError as error:
        return f"{command[0]}: {(error.strerror or str(error)).lower()}"
    return (done.stderr.strip() or f"exit code {done.returncode}") if done.returncode else ""
