"""The `terminal` tool: run a shell command and wait for it, or start it in the background.

The folder a command ends in and the variables it exports last until the next command of the conversation.
"""

import re
from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field

from tools.ansi import plain
from tools.approval.command import about_terminal
from tools.approval.hosts import ask_about_hosts, find_new_hosts
from tools.backends.base import BackendFailed, Command, FileRefused, Finished, ProcessHandle, ProcessStatus, Workplace
from tools.base import Tool, ToolContext, ToolFailed, workplace_of
from tools.media import shown
from tools.process_book import MAX_PROCESSES, Process, ProcessBook, find_stale, now_ms
from tools.registry import build_tool
from tools.terminal_rules import TerminalRules as TerminalRules

TIMED_OUT = 124  # the exit code of the command `timeout`
LONGEST_CHECK_INTERVAL_SECONDS = 86_400
_LEAVES_SOMETHING = re.compile(r"\b(?:cd|pushd|popd|export|unset|source|declare)\b")
_SUDO = re.compile(r"(?<![\w./-])sudo(?![\w./-])")
_PASSWORD_WANTED = re.compile(r"sudo: .{0,200}(?:a terminal is required|a password is required|no askpass program)")
_SUDO_TIP = (
    "sudo needs a password here. The owner can store it with `hermes config set SUDO_PASSWORD` and restart the "
    "gateway; only sudo gets it."
)


def terminal_tool(book: ProcessBook, rules: TerminalRules) -> Tool:
    """Build the tool over a book of processes."""

    async def terminal(
        context: ToolContext,
        command: Annotated[str, Field(description="Command line for bash, for example: pytest -q tests/unit")],
        background: Annotated[
            bool,
            Field(
                description="Start it and return at once, with a session_id for the process tool. For servers and "
                "anything that takes minutes."
            ),
        ] = False,
        timeout: Annotated[
            float,
            Field(
                description="Seconds after which the command is ended. Does not apply to background commands.",
                gt=0,
                allow_inf_nan=False,
            ),
        ] = rules.timeout_seconds,
        workdir: Annotated[str, Field(description="Folder to run this one command in; the current folder stays")] = "",
        check_interval: Annotated[
            int,
            Field(
                description="With background: post new output to the chat every so many seconds; 0 for never",
                ge=0,
                le=LONGEST_CHECK_INTERVAL_SECONDS,
            ),
        ] = 0,
        notify_on_complete: Annotated[
            bool, Field(description="With background: start a new turn for you when the command has ended")
        ] = False,
        pty: Annotated[bool, Field(description="Run it in a terminal, for programs that need one")] = False,
        outside: Annotated[
            bool,
            Field(
                description="Run it on the user's machine itself, outside the sandbox. A human is asked each time, so "
                "use it only for what cannot work inside: docker, system services, hidden files, other folders, the "
                "local network. Try inside first."
            ),
        ] = False,
        reason: Annotated[
            str, Field(description="With outside: one sentence for the human, why it must run outside the sandbox")
        ] = "",
    ) -> dict[str, Any]:
        """Run a shell command and return its output and exit code.

        The current folder and exported variables carry over to the next command. A command that is waited for gets no
        input: start programs that ask questions with background=true and answer them with the process tool. Commands
        may run in a sandbox that holds only the working folder: when one fails because of that, the result says so.
        """
        place = workplace_of(context)
        if outside:
            place = _leave_sandbox(place, reason)
        asked = Command(
            text=command,
            workdir=place.locate(workdir) if workdir else place.current_folder,
            variables=dict(place.environment),
            interactive=background,
            pty=pty,
            ask_host=ask_about_hosts(context),
            is_new_host=find_new_hosts(context, command),
            sudo_password=rules.sudo_password if place.backend.accepts_sudo and _SUDO.search(command) else "",
        )
        if background:
            interval = max(check_interval, rules.min_check_interval_seconds) if check_interval else 0
            process = await _start(asked, place, book, context.task_id, interval, notify_on_complete)
            result: dict[str, Any] = {"session_id": process.id, "pid": process.handle.pid}
            note = _note_on_reports(book, check_interval, interval, notify_on_complete=notify_on_complete)
            return result | ({"note": note} if note else {})
        return await _run(asked, place, rules, timeout, may_move=not workdir)

    about = about_terminal(rules)
    return build_tool(terminal, toolset="terminal", needs_workplace=True, brings="tool:terminal", about=about)


def _leave_sandbox(place: Workplace, reason: str) -> Workplace:
    """Return where a command runs that leaves the sandbox. Raises ToolFailed where none may."""
    if not place.backend.isolates:
        return place  # nothing holds it
    if place.outside is None:
        raise ToolFailed("Commands cannot leave the sandbox here. Run it with outside=false, or tell the user.")
    if not reason.strip():
        raise ToolFailed("`reason` is required with outside=true: a human reads it and decides.")
    return place.outside


# A command that is waited for.


async def _run(
    command: Command, place: Workplace, rules: TerminalRules, timeout: float, *, may_move: bool
) -> dict[str, Any]:
    seconds = min(timeout, rules.longest_seconds)
    try:
        finished = await place.backend.run(replace(command, timeout_seconds=seconds))
    except BackendFailed:
        await _check_folder(command.workdir, place)
        raise
    notes = [f"The timeout was reduced to {seconds:g} s, the longest allowed."] if seconds < timeout else []
    before = (place.current_folder, dict(place.environment))
    notes += [finished.note, _sudo_tip(finished, place, rules), _remember(finished, command, place, may_move=may_move)]
    if before != (place.current_folder, place.environment):
        await place.keep_shell(place)
    error = None
    if finished.timed_out:
        error = f"Timed out after {seconds:g} s; partial output follows."
        notes.append("Start servers and long-running commands with background=true.")
    result: dict[str, Any] = {
        "output": plain(finished.output, from_terminal=command.pty),
        "error": error,
        "exit_code": TIMED_OUT if finished.timed_out else finished.exit_code,
    }
    if finished.full_output:
        result["full_output"] = finished.full_output
        notes.append("The output is shortened; the file full_output has all of it.")
    if said := " ".join(filter(None, notes)):
        result["note"] = said
    return result


def _remember(finished: Finished, command: Command, place: Workplace, *, may_move: bool) -> str:
    """Take over what the command changed, and only that: another may run beside it. Return a note, or nothing."""
    before = command.variables or {}
    state = finished.shell
    if state is None:
        lost = not finished.timed_out and _LEAVES_SOMETHING.search(command.text)
        return "The shell did not report its folder and variables; those from before stay." if lost else ""
    if may_move and state.folder != command.workdir:
        place.current_folder = state.folder
    if state.variables is None:
        return "Its exported variables exceed 64 KB and were not kept."
    for name in before.keys() - state.variables.keys():
        place.environment.pop(name, None)
    place.environment.update(
        {name: value for name, value in state.variables.items() if name not in before or before[name] != value}
    )
    return ""


def _sudo_tip(finished: Finished, place: Workplace, rules: TerminalRules) -> str:
    is_missing = finished.exit_code and not rules.sudo_password and place.backend.accepts_sudo
    return _SUDO_TIP if is_missing and _PASSWORD_WANTED.search(finished.output) else ""


async def _check_folder(folder: str, place: Workplace) -> None:
    """Raise ToolFailed when the folder is gone. The command is not run elsewhere: it could do harm there."""
    try:
        there = await place.backend.files.look(folder)
    except FileRefused:  # unknown
        return
    if there and there.kind in ("folder", "link"):
        return
    if folder != place.current_folder or folder == place.workspace:
        raise ToolFailed(f"The command was not run: there is no folder {shown(folder)}.")
    place.current_folder = place.workspace
    raise ToolFailed(
        f"The command was not run: the current folder {shown(folder)} is gone. The current folder is now "
        f"{shown(place.workspace)}; run the command again if it belongs there."
    )


# A background command.


async def _start(
    command: Command, place: Workplace, book: ProcessBook, task_id: str, check_interval: int, notify_on_complete: bool
) -> Process:
    await make_room(place, book)
    await _check_folder(command.workdir, place)

    def process(handle: ProcessHandle) -> Process:
        return Process(
            handle=handle,
            holder=place.holder,
            task_id=task_id,
            command=command.text,
            workdir=command.workdir,
            started_ms=now_ms(),
            pty=command.pty,
            interactive=command.interactive,
            check_interval_seconds=check_interval,
            notify_on_complete=notify_on_complete,
        )

    return process(await place.backend.spawn(command, lambda handle: book.add(process(handle))))


def _note_on_reports(book: ProcessBook, wanted_interval: int, interval: int, *, notify_on_complete: bool) -> str:
    if not book.is_watched and (interval or notify_on_complete):
        return "Nothing watches it here, so you get no messages about it. Use process poll or wait."
    if interval != wanted_interval:
        return f"New output is posted every {interval} s, the shortest interval allowed."
    return ""


async def make_room(place: Workplace, book: ProcessBook, *, wanted: int = 1) -> None:
    """Forget processes that ended long ago. Raises ToolFailed when too many are running."""
    # Counted by what runs, not by the rows: the watcher may not have looked yet.
    open_ones = [process.handle for process in await book.read_all(place.holder) if process.ended_ms is None]
    statuses: dict[str, ProcessStatus] = {}
    for name in {handle.backend for handle in open_ones}:
        there = [handle for handle in open_ones if handle.backend == name]
        statuses |= await place.control_of(there[0]).statuses(there)
    running = len(open_ones)
    for process_id, status in statuses.items():
        if not status.is_running:
            running -= 1
            await book.mark_ended(process_id, status.exit_code, seen=not wanted)
    if wanted and running >= MAX_PROCESSES:
        raise ToolFailed(f"{MAX_PROCESSES} background processes are running already. Kill some first.")
    for process in find_stale(await book.read_all(place.holder), now_ms(), making_room_for=wanted):
        await place.control_of(process.handle).forget(process.handle)
        await book.remove(process.id)
