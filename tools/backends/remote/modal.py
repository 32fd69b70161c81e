"""Sandboxes at Modal, by its SDK: one for each person and workspace, found again by its name.

It ends when nothing was run in it for a while, and in any case after `terminal.modal.max_hours`; the next command
makes another. The workspace is a volume and stays.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, ClassVar

from hermes_config.environment import lookup
from hermes_config.extras import install_line
from hermes_config.settings import ModalSettings
from tools.backends.remote.calls import Place, PlaceFailed, PlaceGone, helper_argv
from tools.backends.remote.containers import WORKSPACE, idle_script

_PIECE_BYTES = 1 << 20  # what the SDK sends at once
_SHORT_SECONDS = 120.0
_GONE = ("NotFoundError", "SandboxTerminatedError", "SandboxTimeoutError")
_KEYS = "hermes config set MODAL_TOKEN_ID and MODAL_TOKEN_SECRET"
# Errors of the SDK by their names, and the sentence and the next step for each.
_FAILURES = {
    "AuthError": ("Modal refuses the token", _KEYS),
    "PermissionDeniedError": ("Modal does not allow that with this token", _KEYS),
    "ResourceExhaustedError": ("the account at Modal has reached its limit", "see modal.com/settings/usage"),
    "ConnectionError": ("Modal cannot be reached", "check the network, and status.modal.com"),
    "ImageBuildError": ("the image cannot be used", "hermes config set terminal.modal.image …"),
    "InvalidError": ("Modal does not accept the settings", "hermes config show terminal.modal"),
    "TimeoutError": ("it does not answer", "try again"),
    "ExecTimeoutError": ("it does not answer", "try again"),
}


@dataclass(slots=True, kw_only=True)
class ModalPlace(Place):
    settings: ModalSettings
    title: str = "the sandbox at Modal"
    _client: Any = None
    _sandbox: Any = None

    notices_disconnect: ClassVar[bool] = False  # the input of a call stays open at Modal

    async def call(self, call: bytes, seconds: float) -> bytes:
        async with self._translate(seconds) as modal:
            if self._sandbox is None:
                found = modal.Sandbox.from_name
                self._sandbox = await found.aio(self.settings.app, self.name, client=self._client)
            process = await self._sandbox.exec.aio(*helper_argv(), text=False, timeout=int(seconds) + 1)
            for at in range(0, len(call), _PIECE_BYTES):
                process.stdin.write(call[at : at + _PIECE_BYTES])
                await process.stdin.drain.aio()
            output: bytes = await process.stdout.read.aio()
            return output

    async def make(self) -> None:
        chosen = self.settings
        async with self._translate(_SHORT_SECONDS) as modal:
            try:
                self._sandbox = await modal.Sandbox.create.aio(
                    *("sh", "-c", idle_script(self)),
                    app=await modal.App.lookup.aio(chosen.app, create_if_missing=True, client=self._client),
                    name=self.name,
                    tags={"hermes": self.label},
                    image=modal.Image.from_registry(chosen.image) if chosen.image else modal.Image.debian_slim(),
                    env={"HOME": WORKSPACE},
                    timeout=chosen.max_hours * 3600,
                    workdir=WORKSPACE,
                    gpu=chosen.gpu if self.is_owners and chosen.gpu else None,
                    cpu=chosen.cpus,
                    memory=chosen.memory_mb,
                    block_network=not self.network,
                    volumes={WORKSPACE: modal.Volume.from_name(self.name, create_if_missing=True, client=self._client)},
                    client=self._client,
                )
            except modal.exception.AlreadyExistsError:  # made by another process just now
                self._sandbox = None

    async def remove(self, *, with_files: bool = False) -> None:
        async with self._translate(_SHORT_SECONDS) as modal:
            with suppress(modal.exception.NotFoundError):  # it ended when it was idle
                found = await modal.Sandbox.from_name.aio(self.settings.app, self.name, client=self._client)
                await found.terminate.aio()
            if with_files:
                await modal.Volume.objects.delete.aio(self.name, allow_missing=True, client=self._client)
        self._sandbox = None

    async def remove_all(self, *, with_files: bool) -> int:
        count = 0
        async with self._translate(_SHORT_SECONDS) as modal:
            async for sandbox in modal.Sandbox.list.aio(tags={"hermes": self.label}, client=self._client):
                await sandbox.terminate.aio()
                count += 1
            for volume in await modal.Volume.objects.list.aio(client=self._client) if with_files else ():
                if str(volume.name).startswith(f"hermes-{self.label}-"):
                    await modal.Volume.objects.delete.aio(volume.name, allow_missing=True, client=self._client)
        return count

    @asynccontextmanager
    async def _translate(self, seconds: float) -> AsyncIterator[Any]:
        """Hand out the SDK, and say in a sentence how a call of it failed."""
        try:
            import modal
        except ImportError as error:
            raise PlaceFailed("The Python package modal is missing.", install_line("modal")) from error
        token = lookup("MODAL_TOKEN_ID"), lookup("MODAL_TOKEN_SECRET")
        if not all(token):
            raise PlaceFailed("There is no token for Modal.", _KEYS)
        try:
            async with asyncio.timeout(seconds):
                if self._client is None:
                    self._client = await modal.Client.from_credentials.aio(*token)
                yield modal
        except (modal.exception.Error, TimeoutError) as error:
            self._sandbox, name = None, type(error).__name__
            if name in _GONE:
                raise PlaceGone("The sandbox at Modal has ended.") from error
            said = str(error).splitlines()[0][:200] if str(error) else name
            reason, fix = _FAILURES.get(name, (said, "hermes doctor --live"))
            raise PlaceFailed(f"No sandbox can be used: {reason}.", fix) from error
