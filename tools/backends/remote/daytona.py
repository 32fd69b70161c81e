"""Sandboxes at Daytona, by its REST interface: one for each person and workspace, found again by its name.

Daytona stops one that nobody has used for a while, and keeps its files; the next command starts it again.
"""

import asyncio
import base64
import contextlib
import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from hermes_config.environment import lookup
from hermes_config.settings import DaytonaSettings
from tools.backends.remote.calls import SHORT_CALL_SECONDS, Place, PlaceFailed, PlaceGone, helper_argv

_MAKE_SECONDS = 300.0
_PAUSE_SECONDS = 0.5
_PIECE_CHARS = 60_000  # of one command; the kernel takes no longer argument
_STARTED, _BROKEN = "started", ("error", "build_failed", "destroyed", "destroying")
_MAX_BYTES = 400_000_000
_KEY = "hermes config set DAYTONA_API_KEY"
_FAILURES = {
    401: ("Daytona refuses the key", _KEY),
    402: ("the account at Daytona has no credit left", "see app.daytona.io/dashboard/billing"),
    403: ("Daytona does not allow that with this key, or its quota is used up", "see app.daytona.io/dashboard/limits"),
    429: ("Daytona limits how often it can be asked", "try again in a minute"),
}


class _Conflict(PlaceFailed):
    """A sandbox of that name is there already."""


@dataclass(slots=True, kw_only=True)
class DaytonaPlace(Place):
    settings: DaytonaSettings
    title: str = "the sandbox at Daytona"
    _commands: str = ""  # the address for commands, while the sandbox runs

    notices_disconnect: ClassVar[bool] = False  # a command there has no input

    async def call(self, call: bytes, seconds: float) -> bytes:
        """Run the helper. Its input and output go as base64: a command has no input, and its result is text."""
        if not self._commands and (await self._find())["state"] != _STARTED:
            raise PlaceGone("The sandbox at Daytona has been stopped.")
        encoded = base64.b64encode(call).decode()
        *pieces, last = [encoded[at : at + _PIECE_CHARS] for at in range(0, len(encoded), _PIECE_CHARS)]
        file = f"{self.state}.{id(call):x}"
        for piece in pieces:
            await self._execute(f"umask 077; printf %s {piece} >> {file}", SHORT_CALL_SECONDS)
        before = f"cat {file}; rm -f {file}; " if pieces else ""
        source = f"{{ {before}printf %s {last}; }} | base64 -d"
        return base64.b64decode(await self._execute(f"{source} | {shlex.join(helper_argv())} | base64", seconds))

    async def _execute(self, command: str, seconds: float) -> str:
        # Without any quotes inside: some servers split a command by rules of their own.
        encoded = base64.b64encode(command.encode()).decode()
        body = {"command": f'sh -c "printf %s {encoded} | base64 -d | sh"', "timeout": int(seconds) + 1}
        try:
            answer = await self._request("POST", self._commands, body, seconds=seconds + 5)
        except PlaceFailed:
            if (await self._find())["state"] != _STARTED:
                raise PlaceGone("The sandbox at Daytona was stopped.") from None
            raise
        return str(answer.get("result", ""))

    async def _find(self) -> Mapping[str, Any]:
        """Return the facts of the sandbox. Raises PlaceGone when there is none."""
        found: Mapping[str, Any] = await self._request("GET", f"/sandbox/{self.name}")
        runs = found["state"] == _STARTED
        self._commands = f"{found['toolboxProxyUrl'].rstrip('/')}/{found['id']}/process/execute" if runs else ""
        return found

    async def make(self) -> None:
        try:
            state = (await self._find())["state"]
            if state in _BROKEN:
                await self._request("DELETE", f"/sandbox/{self.name}")
                raise PlaceGone("It is broken.")
            if state != _STARTED:
                await self._request("POST", f"/sandbox/{self.name}/start", seconds=_MAKE_SECONDS)
        except PlaceGone:
            with contextlib.suppress(_Conflict):  # made beside us just now
                await self._request("POST", "/sandbox", self._build_request(), seconds=_MAKE_SECONDS)
        try:
            async with asyncio.timeout(_MAKE_SECONDS):
                while (found := await self._find())["state"] != _STARTED:
                    if found["state"] in _BROKEN:
                        reason = found.get("errorReason") or "see app.daytona.io"
                        raise PlaceFailed(f"No sandbox can be used: Daytona could not start it ({reason}).")
                    await asyncio.sleep(_PAUSE_SECONDS)
        except TimeoutError as error:
            raise PlaceFailed("No sandbox can be used: Daytona takes too long to start it.", "try again") from error

    def _build_request(self) -> dict[str, Any]:
        optional = {"snapshot": self.settings.image, "target": self.settings.target}
        return {
            "name": self.name,
            "labels": {"hermes": self.label},
            "autoStopInterval": max(1, self.idle_seconds // 60),
            "networkBlockAll": not self.network,
            **{name: value for name, value in optional.items() if value},
        }

    async def remove(self, *, with_files: bool = False) -> None:
        """Delete the sandbox with its files, or only stop it."""
        await self._remove(self.name, with_files=with_files)
        self._commands = ""

    async def remove_all(self, *, with_files: bool) -> int:
        listed = await self._request("GET", f"/sandbox?labels={json.dumps({'hermes': self.label})}")
        found = listed.get("items", []) if isinstance(listed, dict) else listed
        for sandbox in found:
            await self._remove(sandbox["id"], with_files=with_files)
        return len(found)

    async def _remove(self, name: str, *, with_files: bool) -> None:
        path = f"/sandbox/{name}"
        with contextlib.suppress(PlaceGone):
            await self._request(*(("DELETE", path) if with_files else ("POST", f"{path}/stop")))

    async def _request(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, seconds: float = SHORT_CALL_SECONDS
    ) -> Any:
        key = lookup("DAYTONA_API_KEY")
        if not key:
            raise PlaceFailed("There is no key for Daytona.", _KEY)
        url = path if "://" in path else f"{self.settings.api_url.rstrip('/')}{path}"
        import aiohttp  # costs ten megabytes, so only where it is used

        headers, limit = {"Authorization": f"Bearer {key}"}, aiohttp.ClientTimeout(total=seconds)
        try:
            # A redirect is not followed: it would take the key to another server.
            async with (
                aiohttp.ClientSession(timeout=limit, trust_env=False) as session,
                session.request(method, url, json=body, headers=headers, allow_redirects=False) as response,
            ):
                content = bytearray()
                while len(content) < _MAX_BYTES and (piece := await response.content.readany()):
                    content += piece
                return _read_answer(response.status, content)
        except TimeoutError as error:
            raise PlaceFailed("No sandbox can be used: Daytona does not answer.", "try again later") from error
        except (aiohttp.ClientError, OSError) as error:
            raise PlaceFailed("No sandbox can be used: Daytona cannot be reached.", "check the network") from error


def _read_answer(status: int, content: bytes | bytearray) -> Any:
    answer: Any = {}
    with contextlib.suppress(ValueError):  # an error may be a page
        answer = json.loads(content)
    if status < 300:
        return answer
    if status == 404:
        raise PlaceGone("The sandbox at Daytona has been deleted.")
    said = str(answer.get("message", "") if isinstance(answer, dict) else "")[:200] or f"status {status}"
    reason, fix = _FAILURES.get(status, (f"Daytona says: {said}", "hermes doctor --live"))
    raise (_Conflict if status == 409 else PlaceFailed)(f"No sandbox can be used: {reason}.", fix)
