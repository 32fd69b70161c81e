"""The tokens that logins to MCP servers have brought: a file for each server, readable by its owner alone."""

import asyncio
import fcntl
import json
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hermes_config.edit import replace_file
from hermes_config.mcp import McpServer
from hermes_config.places import make_private
from tools.content import from_stored

_RENEWING_SECONDS, _LOOK_SECONDS = 30.0, 0.05
_SECRETS = ("access_token", "refresh_token", "client_secret")


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """The tokens for one address, and what is needed to renew them. Never shown."""

    url: str
    tokens: dict[str, Any] = field(repr=False)
    client: dict[str, Any] = field(repr=False)  # Hermes, as the authorization server knows it
    expires_at: float | None = None  # of the access token; None: it was not told
    authorization_server: dict[str, Any] | None = None
    resource: dict[str, Any] | None = None


class Logins:
    """The logins in a folder; without one there are none, and none can be kept."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    def load(self, server: McpServer) -> Login | None:
        """Return the login; None when there is none for this address: no other one may be sent its tokens."""
        login = self._read(self._path(server.name))
        return login if login is not None and login.url == server.url and not server.has_own_login else None

    def save(self, name: str, login: Login) -> None:
        path = self._path(name)
        assert path is not None
        make_private(path.parent)
        replace_file(path, json.dumps(asdict(login)))

    def delete(self, name: str) -> bool:
        """Delete the login; return whether there was one."""
        path = self._path(name)
        if path is None or name not in self.names():  # which no name with a slash is
            return False
        path.unlink(missing_ok=True)
        return True

    @asynccontextmanager
    async def held(self, name: str) -> AsyncIterator[None]:
        """Wait until nobody else, in any process, holds the login: two must not renew it with the same token.

        The caller must check whether it has changed meanwhile. After half a minute it is no longer waited for.
        """
        path = self._path(name)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC) if path is not None else None
        except OSError:
            descriptor = None
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(_RENEWING_SECONDS):
                    while descriptor is not None and not _is_locked(descriptor):  # noqa: ASYNC110  # other processes
                        await asyncio.sleep(_LOOK_SECONDS)
            yield
        finally:
            if descriptor is not None:
                os.close(descriptor)

    def stamp(self, name: str) -> int:
        """Return a number that changes with every change of the login."""
        path = self._path(name)
        with suppress(OSError):
            return path.stat().st_mtime_ns if path is not None else 0
        return 0

    def names(self) -> list[str]:
        return sorted(path.stem for path in self._folder.glob("*.json")) if self._folder is not None else []

    def secrets(self) -> Iterator[str]:
        """Yield all values that must not be shown."""
        for name in self.names():
            if (login := self._read(self._path(name))) is not None:
                yield from list_secrets(login)

    def _path(self, name: str) -> Path | None:
        return self._folder / f"{name}.json" if self._folder is not None else None

    def _read(self, path: Path | None) -> Login | None:
        if path is None:
            return None
        try:
            login = from_stored(Login, json.loads(path.read_text()))
            is_whole = "access_token" in login.tokens and "client_id" in login.client
        except (OSError, ValueError, TypeError):  # none, or damaged: a new login replaces it
            return None
        return login if is_whole else None


def _is_locked(descriptor: int) -> bool:
    """Lock a file unless somebody else has; return whether it is ours."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # not all file systems can
        return True
    return True


def list_secrets(login: Login) -> list[str]:
    return [str(place[name]) for place in (login.tokens, login.client) for name in _SECRETS if place.get(name)]
