"""The `execute_code` tool: run a Python script where commands run, with the other tools as functions.

A call of a tool travels as a file that the script writes and we read: of the backend this needs only commands and
files, so it works in each of them. It goes the way of any call, with the same approvals.
"""

import asyncio
import contextlib
import inspect
import json
import secrets
import shlex
import time
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from tools import code_child
from tools.ansi import plain
from tools.approval.command import Asked, question_about
from tools.approval.gate import Question
from tools.approval.hosts import ask_about_hosts, find_new_hosts
from tools.backends.base import BackendFailed, Command, FileRefused, Finished, Workplace
from tools.base import Tool, ToolContext, ToolFailed, workplace_of
from tools.registry import build_tool, registry
from tools.terminal_rules import TerminalRules

NAME = "execute_code"
MAX_CALLS = 50
SECONDS = 300.0  # without the time in which tools work, or a human is asked
_GRACE_SECONDS = 180.0  # for the start of a sandbox; then a script is ended that does not end itself
_LONGEST_SECONDS = 14_400.0
_MAX_CODE_CHARS = 100_000
_MAX_CALL_BYTES = 1_000_000
_LOOK_SECONDS, _SLOWEST_LOOK_SECONDS = 0.02, 0.5
_NOT_FOUND = 127
_NOT_INSIDE = ("code", "delegate")


def code_tool(rules: TerminalRules, *, seconds: float = SECONDS) -> Tool:
    """Build the tool; `seconds` is the time that a script has."""

    async def execute_code(
        context: ToolContext,
        code: Annotated[str, Field(description="A Python 3 script. Only what it prints comes back.")],
    ) -> dict[str, Any]:
        """Run a Python script in the current folder. Your other tools are functions in it, with the same parameters,
        such as `file_read(path="a.txt")["content"]`; each returns its result (a dict, or text) and raises ToolFailed.
        Use it to call tools many times, to filter or join large results, and to compute: only what is printed costs
        you tokens. At most 50 calls of tools and 300 seconds."""
        place = workplace_of(context)
        if not code.strip():
            raise ToolFailed("`code` is required: a Python script that prints what you want to know.")
        if len(code) > _MAX_CODE_CHARS:
            raise ToolFailed(
                f"The script is longer than {_MAX_CODE_CHARS:,} characters. Write it to a file and run that."
            )
        script = _Script(context, place, seconds)
        finished = await script.run(_make_command(code, context, place, script.folder, seconds))
        return _describe(finished, script.calls, seconds)

    async def about(given: dict[str, object], context: ToolContext) -> Question | None:
        place, code = context.workplace, given.get("code")
        if place is None or not isinstance(code, str) or not code.strip():
            return None  # the tool itself says what is wrong
        return await question_about(
            Asked(tool=NAME, command=_as_command(code), action=code, folder=place.current_folder), rules, place, context
        )

    return build_tool(execute_code, toolset="code", needs_workplace=True, brings=f"tool:{NAME}", about=about)


def _make_command(code: str, context: ToolContext, place: Workplace, folder: str, seconds: float) -> Command:
    offered = {
        tool.name: list(tool.schema.get("properties", {}))
        for tool in context.tools.values()
        if tool.toolset not in _NOT_INSIDE
    }
    return Command(
        text=shlex.join(["python3", "-u", "-c", inspect.getsource(code_child), folder, f"{seconds:g}"]),
        workdir=place.current_folder,
        stdin=json.dumps({"code": code, "tools": offered}).encode(),
        variables=dict(place.environment),
        timeout_seconds=_LONGEST_SECONDS,
        ask_host=ask_about_hosts(context),
        is_new_host=find_new_hosts(context, _as_command(code)),
    )


def _as_command(code: str) -> str:
    """Return the command that would do the same, which the guard judges."""
    return f"python3 -c {shlex.quote(code)}"


class _Script:
    """A script that runs, and the calls that it makes."""

    def __init__(self, context: ToolContext, place: Workplace, seconds: float) -> None:
        # A name that nobody can know before; the script makes it a folder of its own.
        self.folder = f"/tmp/hermes-code-{secrets.token_hex(12)}"  # noqa: S108
        self.calls = 0
        self._context = context
        self._backend = place.backend
        self._seconds = seconds + _GRACE_SECONDS

    async def run(self, command: Command) -> Finished:
        """Return when the script has ended. Raises BackendFailed, ToolFailed."""
        running = asyncio.ensure_future(self._backend.run(command))
        serving = asyncio.ensure_future(self._serve())
        finished = None
        try:
            await asyncio.wait({running, serving}, return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                serving.result()  # raises why it gave up
            finished = await running
            return finished
        finally:
            running.cancel()
            serving.cancel()
            await asyncio.gather(running, serving, return_exceptions=True)
            if finished is None or finished.exit_code > 128:  # killed, it could not tidy up
                with contextlib.suppress(BackendFailed):
                    await self._backend.run(Command(argv=("rm", "-rf", self.folder), timeout_seconds=10))

    async def _serve(self) -> None:
        """Carry out calls until the script has used up its time; raises ToolFailed then."""
        left, pause = self._seconds, _LOOK_SECONDS
        while left > 0:
            began = time.monotonic()
            if (wanted := await self._find_call()) is None:
                await asyncio.sleep(pause)
                left, pause = left - (time.monotonic() - began), min(pause * 1.2, _SLOWEST_LOOK_SECONDS)
                continue
            text, failed = await self._carry_out(wanted)
            answer = json.dumps({"text": text, "failed": failed}).encode()
            await self._backend.files.write(f"{self.folder}/{self.calls}.result", answer)
            pause = _LOOK_SECONDS
        raise ToolFailed("The script did not end in time and was killed. Its output is lost.")

    async def _find_call(self) -> Mapping[str, Any] | None:
        path = f"{self.folder}/{self.calls + 1}.call"
        try:
            if await self._backend.files.look(path) is None:
                return None
        except FileRefused:  # not there yet
            return None
        self.calls += 1
        try:
            found = json.loads((await self._backend.files.read(path, max_bytes=_MAX_CALL_BYTES)).content)
        except (FileRefused, ValueError):
            found = None
        return found if isinstance(found, dict) else {}

    async def _carry_out(self, wanted: Mapping[str, Any]) -> tuple[str, bool]:
        name, arguments = wanted.get("name"), wanted.get("arguments")
        tool = self._context.tools.get(name) if isinstance(name, str) else None
        if self._context.call is None or not isinstance(name, str) or not isinstance(arguments, str):
            return f"The call could not be read: at most {_MAX_CALL_BYTES:,} bytes.", True
        if self.calls > MAX_CALLS:
            return (
                f"A script may make {MAX_CALLS} calls of tools. Print what you have, and go on in another script.",
                True,
            )
        if tool is None or tool.toolset in _NOT_INSIDE:
            return f"The tool {name} cannot be called from a script.", True
        return await self._context.call(name, arguments)


def _describe(finished: Finished, calls: int, seconds: float) -> dict[str, Any]:
    output = plain(finished.output)
    error = None
    if finished.exit_code == code_child.TIMED_OUT or finished.timed_out:
        error = f"The script was ended after {seconds:g} seconds; partial output follows."
    elif finished.exit_code == _NOT_FOUND and not calls:
        error = "Python 3 was not found where commands run. Install it there, or use the terminal."
    elif finished.exit_code:
        error = "The script failed; the end of the output says why."
    result: dict[str, Any] = {"output": output, "error": error, "exit_code": finished.exit_code, "tool_calls": calls}
    if finished.full_output:
        result["full_output"] = finished.full_output
    return result | ({"note": finished.note} if finished.note else {})


registry.add(code_tool(TerminalRules()), module=__name__)
