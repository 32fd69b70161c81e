"""Run commands on this machine, each under a supervisor: a small process that outlives us if necessary.

A command that is waited for has a lifeline: when we are gone, even killed, its supervisor ends it and all its children.
A shell's last folder and exports are handed to the next shell through bash's own start-up file (BASH_ENV) and a trap
on EXIT, so that bash gets the command unchanged. Only `trap -p` and `set -v` show that there is a trap.
"""

import asyncio
import base64
import contextlib
import json
import os
import re
import secrets
import shlex
import shutil
import stat
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hermes_config.places import make_private
from tools.backends.base import BackendFailed, Command, Finished, ShellState
from tools.backends.child_processes import SECRET_DESCRIPTOR
from tools.backends.supervisor_child import BOX_GONE
from tools.content import in_bytes

PTY_TERM = "xterm-256color"
ENDED = "ended"  # written by a supervisor when all is over
MARK = "HERMES_PROCESS"  # in the environment of a background process: its children are found by it, too
MAX_KEPT_BYTES = 10_000_000
MAX_KEPT_OUTPUTS = 50
KEPT_TAIL_BYTES = 1_000_000  # of output that is longer than that
BACKGROUND_HEAD_BYTES = 65_536
BACKGROUND_TAIL_BYTES = 200_000
MAX_VARIABLES_BYTES = 64_000
_MAX_REPORT_BYTES = 512_000
_MAX_ARGUMENT_BYTES = 131_000  # the longest argument that the kernel takes
_MAX_LINE_BYTES = 65_536
_ABANDONED_SECONDS = 172_800  # longer than any command may take: its supervisor must have been killed
_SHELLS = ("/bin/bash", "/bin/sh")
_START_SUPERVISOR = (
    f"import sys; sys.path.append({str(Path(__file__).parents[2])!r}); "
    "from tools.backends.supervisor_child import main; main()"
)
_START_UP = "start_up"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Variables that a shell makes by itself, or lets nobody set.
_SHELLS_OWN = {"_", "BASHOPTS", "BASH_ENV", "EUID", "PPID", "PWD", "SHELLOPTS", "SHLVL", "UID"}

# Whatever the command has set or redefined, this prints nothing and does not change the exit code.
_AT_EXIT = (
    '{ set +x; (umask 077; { builtin pwd && builtin printf "\\0" && command -p env -0 && builtin printf "\\0"; } '
    ">| %s) || :; } >/dev/null 2>&1"
)

# Pipe the password in only if sudo would ask: a command that needs none must not find it in its input.
_SUDO = f"""\
sudo() {{
  command sudo -S -p '' -v < /dev/fd/{SECRET_DESCRIPTOR} > /dev/null 2>&1 || :
  if command sudo -n -v 2> /dev/null || [ -t 0 ]; then command sudo "$@"
  else command sudo -S -p '' "$@" < <(cat /dev/fd/{SECRET_DESCRIPTOR} -); fi
}}
"""


class BoxGone(BackendFailed):
    """The sandbox that should run the command has ended. The command was not started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellSetup:
    """The variables a shell starts with, and where it reports its own; without a `report` that is beside its output."""

    variables: Mapping[str, str | None]
    report: Path | None = None  # on our side
    report_named: str = ""  # the same file as the shell names it


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSpec:
    """A command for a supervisor, as the kernel takes it, with its limits."""

    argv: Sequence[str]
    workdir: str
    environment: Mapping[str, str]
    timeout_seconds: float | None
    stdin: bytes = b""
    interactive: bool = False
    pty: bool = False
    rlimits: Mapping[str, int] = field(default_factory=dict)
    niceness: int = 10
    spares: Mapping[str, int] = field(default_factory=dict)  # free bytes that stay on the disks of these folders
    box: str = ""  # the control socket of the sandbox to run it in; empty for none
    shell: ShellSetup | None = None  # for a command given to bash
    sudo_password: str = field(default="", repr=False)


def prepare(
    command: Command, workspace: str, environment: Mapping[str, str], timeout_seconds: float | None
) -> LaunchSpec:
    """Describe a command for a supervisor, which runs text in a shell. Raises BackendFailed if it is empty."""
    if not command.argv and not command.text.strip():
        raise BackendFailed("There is no command to run.")
    shell = next((shell for shell in _SHELLS if os.path.exists(shell)), _SHELLS[-1])
    workdir = command.workdir or workspace
    # With PWD, a folder keeps the name by which it was entered, even if that is a link.
    own = {"PWD": workdir} | ({"TERM": PTY_TERM} if command.pty else {})
    return LaunchSpec(
        argv=command.argv or (shell, "-c", command.text),
        workdir=workdir,
        environment={**environment, **own, **command.environment},
        timeout_seconds=timeout_seconds,
        stdin=command.stdin,
        interactive=command.interactive,
        pty=command.pty,
        shell=None if command.variables is None else ShellSetup(variables=command.variables),
        sudo_password=command.sudo_password,
    )


async def run(spec: LaunchSpec, outputs: Path, *, max_output_chars: int, keeps_output: bool = True) -> Finished:
    """Run a command to its end. Output beyond `max_output_chars` stays in a file below `outputs`.

    Raises BackendFailed.
    """
    folder = make_output_folder(outputs, "cmd")
    report = _report_file(spec, folder)
    keeps_folder = False
    try:
        process = await start_supervisor(spec, folder, outlives_us=False)
        try:
            await read_start(process)
            assert process.stdout is not None
            answer = await process.stdout.readline()
        finally:
            await close_lifeline(process)
        finished = await asyncio.to_thread(_collect, _parse(answer), folder, max_output_chars)
        if report and not finished.timed_out:
            finished = replace(finished, shell=await asyncio.to_thread(_read_report_file, report, spec.environment))
        keeps_folder = bool(finished.full_output) and keeps_output
        if keeps_folder:
            await asyncio.to_thread(_prune, outputs)
        return finished if keeps_output else replace(finished, full_output="")
    finally:
        for file in filter(None, (report, folder / _START_UP)):
            with contextlib.suppress(OSError):
                file.unlink()
        if not keeps_folder:
            shutil.rmtree(folder, ignore_errors=True)


def keep(text: str, outputs: Path) -> str:
    """Store a text as if a command had written it; return its path. Raises BackendFailed."""
    folder = make_output_folder(outputs, "cmd")
    file = folder / "output.000000000000000"
    try:
        file.touch(mode=0o600)
        file.write_text(text, encoding="utf-8", errors="replace")
        (folder / ENDED).touch()
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise BackendFailed(f"The text could not be stored ({error.strerror}).") from error
    _prune(outputs)
    return str(file)


def make_output_folder(outputs: Path, kind: str) -> Path:
    folder = outputs / f"{kind}_{secrets.token_hex(6)}"
    try:
        make_private(folder)
    except OSError as error:
        raise BackendFailed(f"The command was not run: its output cannot be stored ({error.strerror}).") from error
    return folder


async def start_supervisor(spec: LaunchSpec, folder: Path, *, outlives_us: bool) -> asyncio.subprocess.Process:
    """Start a supervisor that runs the command. Raises BackendFailed."""
    for argument in (*spec.argv, spec.workdir):
        if not _is_valid_argument(argument):
            raise BackendFailed(
                f"The command was not run: it is longer than {_MAX_ARGUMENT_BYTES:,} bytes, or contains a NUL or half "
                "a character. Write it to a file and run that."
            )
    mark = {MARK: folder.name} if outlives_us else {}
    order = {
        "argv": list(spec.argv),
        "workdir": spec.workdir,
        "environment": dict(spec.environment) | mark | _write_start_up(spec, folder, outlives_us=outlives_us),
        "secret": f"{spec.sudo_password}\n" if spec.sudo_password else "",
        "timeout_seconds": spec.timeout_seconds,
        "stdin": base64.b64encode(spec.stdin).decode(),
        "interactive": spec.interactive,
        "pty": spec.pty,
        "rlimits": dict(spec.rlimits),
        "niceness": spec.niceness,
        "box": spec.box,
        "spares": dict(spec.spares),
        "folder": str(folder),
        "head_bytes": BACKGROUND_HEAD_BYTES if outlives_us else MAX_KEPT_BYTES,
        "tail_bytes": BACKGROUND_TAIL_BYTES if outlives_us else KEPT_TAIL_BYTES,
        "may_outlive": outlives_us,
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-I", "-S", "-c", _START_SUPERVISOR),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        limit=_MAX_LINE_BYTES,
        env={"PATH": spec.environment.get("PATH", os.defpath)},
        cwd="/",
        start_new_session=True,
    )
    assert process.stdin is not None
    # Over the pipe, since everybody on the machine can read arguments.
    process.stdin.write(json.dumps(order).encode() + b"\n")
    return process


async def read_start(process: asyncio.subprocess.Process) -> dict[str, Any]:
    """Wait until the command runs; return its ids. Raises BackendFailed when it could not be started."""
    assert process.stdin is not None
    assert process.stdout is not None
    with contextlib.suppress(ConnectionError):  # the missing answer is handled below
        await process.stdin.drain()
    started = _parse(await process.stdout.readline())
    if started.get("what") == BOX_GONE:
        raise BoxGone("The sandbox has ended.")
    if "failed" in started:
        raise BackendFailed(f"The command could not be started: {started['failed']} ({started['what']}).")
    return started


async def close_lifeline(process: asyncio.subprocess.Process) -> None:
    """Close the supervisor's input and wait for its end, even if cancelled again, so that no children stay behind."""
    assert process.stdin is not None
    process.stdin.close()

    async def wait() -> None:
        assert process.stdout is not None
        await process.stdout.read()
        await process.wait()

    await asyncio.shield(wait())


def _is_valid_argument(argument: str) -> bool:
    try:
        encoded = os.fsencode(argument)
    except UnicodeEncodeError:
        return False
    return len(encoded) <= _MAX_ARGUMENT_BYTES and b"\0" not in encoded


def _parse(line: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(line)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise BackendFailed("The command's supervisor was killed, so the outcome of the command is unknown.")
    return answer


# The shell's start and end.


def _write_start_up(spec: LaunchSpec, folder: Path, *, outlives_us: bool) -> dict[str, str]:
    """Write the file that bash reads before the command; return the variable that names it."""
    if spec.shell is None:
        return {}
    report = "" if outlives_us else spec.shell.report_named or str(_report_file(spec, folder))
    lines = ["unset BASH_ENV"]
    for name, value in spec.shell.variables.items():
        lines.append(f"unset {name}" if value is None else f"export {name}={shlex.quote(value)}")
    lines = [f"{line} 2>/dev/null" for line in lines]
    if spec.sudo_password:
        lines.append(_SUDO)
    if report:
        lines.append(f"trap {shlex.quote(_AT_EXIT % shlex.quote(report))} EXIT")
    file = folder / _START_UP
    try:
        file.touch(0o600)
        file.write_bytes(_encode("\n".join([*lines, ""])))
    except OSError as error:
        raise BackendFailed(f"The command was not run: its shell cannot be prepared ({error.strerror}).") from error
    return {"BASH_ENV": str(file)}


def _report_file(spec: LaunchSpec, folder: Path) -> Path | None:
    return (spec.shell.report or folder / "report") if spec.shell else None


def _read_report_file(file: Path, given: Mapping[str, str]) -> ShellState | None:
    """Read a report. The command may have put anything there, so read only a regular file of a sensible size."""
    with contextlib.suppress(OSError):
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as report:
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                content = report.read(_MAX_REPORT_BYTES + 1)
                return read_report(content, given) if len(content) <= _MAX_REPORT_BYTES else None
    return None


def read_report(report: bytes, given: Mapping[str, str]) -> ShellState | None:
    """Return the folder and the variables that differ from those `given`; None when the report is incomplete."""
    folder, found, rest = report.partition(b"\n\0")
    if not found or not folder.startswith(b"/") or not (rest == b"\0" or rest.endswith(b"\0\0")):
        return None
    entries = rest.decode("utf-8", "surrogateescape").split("\0")
    exported = {name: value for name, equals, value in (entry.partition("=") for entry in entries) if equals}
    changed: dict[str, str | None] = {name: value for name, value in exported.items() if given.get(name) != value}
    changed |= {name: None for name in given if name not in exported}
    kept = {name: value for name, value in changed.items() if _VARIABLE.fullmatch(name) and name not in _SHELLS_OWN}
    is_small = sum(len(_encode(f"{name}={value}")) for name, value in kept.items()) <= MAX_VARIABLES_BYTES
    return ShellState(folder=folder.decode("utf-8", "surrogateescape"), variables=kept if is_small else None)


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


# The output.


def output_pieces(folder: Path) -> list[tuple[int, Path]]:
    """Return the files of an output by the position of their first byte: the first, and as many of the last as are
    kept."""
    with contextlib.suppress(OSError):
        return sorted((int(file.name.partition(".")[2]), file) for file in folder.glob("output.*"))
    return []


def describe_children(result: Mapping[str, Any], advice: str) -> str:
    notes = []
    if result["left_children"]:
        notes.append(f"It left child processes running, which were ended; {advice}")
    if result.get("ended_by_us") == "disk":
        notes.append("It was ended because the disk is nearly full. Delete files that are no longer needed.")
    if result["stubborn"]:
        notes.append(f"{result['stubborn']} of its processes could not be ended: they belong to another user.")
    return " ".join(notes)


def _collect(result: Mapping[str, Any], folder: Path, max_chars: int) -> Finished:
    total = int(result["output_bytes"])
    pieces = output_pieces(folder)
    full = ""
    if total and not pieces:
        text = f"[{in_bytes(total)} of output could not be stored: the disk is full]"
    elif total > 4 * max_chars or len(pieces) > 1:
        text, full = _head_and_tail(pieces, total, max_chars), str(pieces[0][1])
    else:
        text = "".join(file.read_bytes().decode("utf-8", "replace") for _, file in pieces)
        if len(text) > max_chars:
            text, full = _head_and_tail(pieces, total, max_chars), str(pieces[0][1])
    notes = [describe_children(result, "start such processes with background=true.")]
    if full and total > MAX_KEPT_BYTES:
        notes.append(f"Of {in_bytes(total)} of output, the first {in_bytes(MAX_KEPT_BYTES)} are kept.")
    return Finished(
        output=text,
        exit_code=int(result["exit_code"]),
        timed_out=result["ended_by_us"] == "timeout",
        output_bytes=total,
        full_output=full,
        note=" ".join(filter(None, notes)),
    )


def _head_and_tail(pieces: Sequence[tuple[int, Path]], total: int, max_chars: int) -> str:
    half = max(max_chars // 2, 1)
    with pieces[0][1].open("rb") as file:
        head = file.read(4 * half).decode("utf-8", "replace")[:half]
    tail = b""
    for _, piece in reversed(pieces):
        if len(tail) < 4 * half:
            with piece.open("rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - (4 * half - len(tail))))
                tail = file.read() + tail
    end = tail.decode("utf-8", "replace")[-half:]
    left_out = total - len(head.encode()) - len(end.encode())
    return f"{head}\n[… {in_bytes(max(left_out, 0))} of output omitted …]\n{end}"


def _prune(outputs: Path) -> None:
    """Delete the oldest long outputs; a command that still runs keeps its folder."""
    with contextlib.suppress(OSError):
        oldest_first = sorted((folder.stat().st_mtime, folder) for folder in outputs.glob("cmd_*"))
        abandoned_before = time.time() - _ABANDONED_SECONDS
        over = [folder for at, folder in oldest_first if (folder / ENDED).exists() or at < abandoned_before]
        for folder in over[:-MAX_KEPT_OUTPUTS]:
            shutil.rmtree(folder, ignore_errors=True)
