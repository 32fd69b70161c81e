"""The agent's shell: a command that is waited for, or one that goes on in the background.

The folder it ends in and what it exports last from one command to the next of a conversation.
"""

import re
from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field

from tools.ansi import plain
from tools.approval.command import about_terminal
from tools.approval.wrapper import needs_approval
from tools.backends.base import BackendFailed, Command, FileRefused, Finished, ProcessHandle, Workplace
from tools.base import Tool, ToolContext, ToolFailed, workplace_of
from tools.media import shown
from tools.process_book import MAX_PROCESSES, Process, ProcessBook, find_stale, now_ms
from tools.registry import build_tool
from tools.terminal_rules import TerminalRules as TerminalRules

TIMED_OUT = 124  # as the command `timeout` says it
LONGEST_CHECK_INTERVAL_SECONDS = 86_400
_LEAVES_SOMETHING = re.compile(r"\b(?:cd|pushd|popd|export|unset|source|declare)\b")
_SUDO = re.compile(r"(?<![\w./-])sudo(?![\w./-])")
_PASSWORD_WANTED = re.compile(r"sudo: .{0,200}(?:a terminal is required|a password is required|no askpass program)")
_SUDO_TIP = (
    "sudo needs a password here. The owner can set it with `hermes config set SUDO_PASSWORD` and restart the "
    "gateway; sudo then gets it, and it is shown to nobody."
)


def terminal_tool(book: ProcessBook, rules: TerminalRules) -> Tool:
    """The tool over a book of the caller's choice."""

    async def terminal(
        context: ToolContext,
        command: Annotated[str, Field(description="What the shell (bash) shall run")],
        background: Annotated[
            bool, Field(description="Go on at once: for servers and for what takes minutes; gives a session_id")
        ] = False,
        timeout: Annotated[
            float,
            Field(
                description="After so many seconds it is ended; not of one in the background", gt=0, allow_inf_nan=False
            ),
        ] = rules.timeout_seconds,
        workdir: Annotated[str, Field(description="Where to run it, for this command alone")] = "",
        check_interval: Annotated[
            int,
            Field(
                description="In the background: tell the chat what is new every so many seconds; 0 means never",
                ge=0,
                le=LONGEST_CHECK_INTERVAL_SECONDS,
            ),
        ] = 0,
        notify_on_complete: Annotated[bool, Field(description="In the background: be woken when it has ended")] = False,
        pty: Annotated[bool, Field(description="Give it a terminal, as some programs want one")] = False,
    ) -> dict[str, Any]:
        """Run a shell command. The current folder and exported variables stay for the next one.

        Nobody can type into it: start what asks questions in the background, and answer with process.
        """
        place = workplace_of(context)
        asked = Command(
            text=command,
            workdir=place.locate(workdir) if workdir else place.current_folder,
            variables=dict(place.environment),
            interactive=background,
            pty=pty,
            sudo_password=_password_for(command, place, rules),
        )
        if background and not place.backend.keeps_processes:
            raise ToolFailed("Commands cannot run in the background here. Run it with background=false.")
        if background:
            interval = max(check_interval, rules.min_check_interval_seconds) if check_interval else 0
            process = await _started(asked, place, book, context.task_id, interval, notify_on_complete)
            told: dict[str, Any] = {"session_id": process.id, "pid": process.handle.pid}
            note = _about_news(book, check_interval, interval, notify_on_complete=notify_on_complete)
            return told | ({"note": note} if note else {})
        return await _waited_for(asked, place, rules, timeout, may_move=not workdir)

    built = build_tool(terminal, toolset="terminal", needs_workplace=True, brings="tool:terminal")
    return needs_approval(built, about_terminal(rules))


def _password_for(command: str, place: Workplace, rules: TerminalRules) -> str:
    is_wanted = place.backend.accepts_sudo and _SUDO.search(command)
    return rules.sudo_password if is_wanted else ""


# One that is waited for.


async def _waited_for(
    command: Command, place: Workplace, rules: TerminalRules, timeout: float, *, may_move: bool
) -> dict[str, Any]:
    seconds = min(timeout, rules.longest_seconds)
    try:
        finished = await place.backend.run(replace(command, timeout_seconds=seconds))
    except BackendFailed:
        await _check_folder(command.workdir, place)
        raise
    notes = [f"The timeout was made {seconds:g} seconds, the longest there is."] if seconds < timeout else []
    before = (place.current_folder, dict(place.environment))
    notes += [finished.note, _sudo_tip(finished, place, rules), _remember(finished, command, place, may_move=may_move)]
    if before != (place.current_folder, place.environment):
        await place.keep_shell(place)
    error = None
    if finished.timed_out:
        error = f"It was ended after {seconds:g} seconds; its output until then is given."
        notes.append("Start servers and what takes longer with background=true.")
    result: dict[str, Any] = {
        "output": plain(finished.output, from_terminal=command.pty),
        "error": error,
        "exit_code": TIMED_OUT if finished.timed_out else finished.exit_code,
    }
    if finished.full_output:
        result["full_output"] = finished.full_output
        notes.append("There is more output than is shown; it is in the file full_output.")
    if said := " ".join(filter(None, notes)):
        result["note"] = said
    return result


def _remember(finished: Finished, command: Command, place: Workplace, *, may_move: bool) -> str:
    """Takes over what the command has changed, and only that: another one may run beside it. Gives a note."""
    before = command.variables or {}
    state = finished.shell
    if state is None:
        lost = not finished.timed_out and _LEAVES_SOMETHING.search(command.text)
        return (
            "The shell ended without telling where it was: folder and variables are those from before." if lost else ""
        )
    if may_move and state.folder != command.workdir:
        place.current_folder = state.folder
    if state.variables is None:
        return "What it exported is more than 64 KB, and was not kept."
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
    """Raises ToolFailed when the folder is gone. Nothing is run elsewhere instead: it could do harm there."""
    try:
        there = await place.backend.files.look(folder)
    except FileRefused:  # nobody can say
        return
    if there and there.kind in ("folder", "link"):
        return
    if folder != place.current_folder or folder == place.workspace:
        raise ToolFailed(f"There is no folder {shown(folder)}, so nothing was run.")
    place.current_folder = place.workspace
    raise ToolFailed(
        f"The current folder {shown(folder)} is gone, so nothing was run. The current folder is now "
        f"{shown(place.workspace)}; run it again if it belongs there."
    )


# One that goes on.


async def _started(
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


def _about_news(book: ProcessBook, wanted_interval: int, interval: int, *, notify_on_complete: bool) -> str:
    if not book.is_watched and (interval or notify_on_complete):
        return "Nobody watches it here, so nothing is told by itself: look with process poll, or wait for it."
    if interval != wanted_interval:
        return f"It is checked every {interval} seconds; more often is not possible."
    return ""


async def make_room(place: Workplace, book: ProcessBook, *, wanted: int = 1) -> None:
    """Forgets those that ended long ago. Raises ToolFailed when too many are running."""
    # Counted by what runs, not by the rows: the watcher may not have looked yet.
    open_ones = [process.handle for process in await book.read_all(place.holder) if process.ended_ms is None]
    statuses = await place.backend.statuses(open_ones)
    running = len(open_ones)
    for process_id, status in statuses.items():
        if not status.is_running:
            running -= 1
            await book.mark_ended(process_id, status.exit_code, seen=not wanted)
    if wanted and running >= MAX_PROCESSES:
        raise ToolFailed(f"{MAX_PROCESSES} processes are running already. Kill some first.")
    for process in find_stale(await book.read_all(place.holder), now_ms(), making_room_for=wanted):
        await place.backend.forget(process.handle)
        await book.remove(process.id)
