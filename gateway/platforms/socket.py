"""Local scripts: JSON lines over a Unix socket in the home; each side acknowledges what it has accepted.

    them  {"type": "message", "id": "1", "chat": "build", "text": "hello"}     -> {"type": "ack", "id": "1", …}
    them  {"type": "listen", "chat": "build"}
    us    {"type": "message", "key": "…", "chat": "build", "text": "…"}        -> {"type": "ack", "key": "…"}

What is not acknowledged is sent again with the same id or key: each side drops duplicates.
"""

import asyncio
import contextlib
import json
import mimetypes
import os
import re
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog

from gateway.clock import now_ms
from gateway.errors import DeliveryInDoubt, GatewayStopping, MediaUnavailable, PlatformUnavailable, StoreUnavailable
from gateway.messages import InboundMessage, Media, OutboundMessage, Part, Receipt, Sender, SessionKey, Text
from gateway.platforms.base import Features, Inlet
from gateway.platforms.rate_limit import RateLimits
from gateway.platforms.spec import AccountSetup, PlatformSpec
from gateway.platforms.text import describe_size_limit, media_kind
from tools.backends.ancestry import is_our_command, peer_pid
from tools.media import SYSTEM_FOLDERS

log = structlog.get_logger()

_CHAT_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_MAX_ID_CHARS = 200
_ACK_TIMEOUT_SECONDS = 10.0
_REFUSED_SECONDS = 1.0
_MAX_UNACKED = 16  # per client: one must not use up all concurrent sends
_MAX_UNREAD_BYTES = 1_000_000


class _BadLine(Exception):
    """An invalid line; the text tells the client what is wrong with it."""


@dataclass(slots=True, eq=False)
class _Client:
    writer: asyncio.StreamWriter
    chats: set[str] = field(default_factory=set)
    unacked: dict[str, asyncio.Future[None]] = field(default_factory=dict)

    def say(self, **line: Any) -> None:
        self.writer.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")


class SocketPlatform:
    features = Features(resend="safe", local=True)

    def __init__(self, path: Path, *, account: str = "socket", max_line_bytes: int = 1_000_000) -> None:
        self.account = account
        self.rate_limits = RateLimits()
        self._path = path
        self._max_line_bytes = max_line_bytes
        self._clients: list[_Client] = []  # the most recently active last

    async def run(self, inlet: Inlet) -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            client = _Client(writer)
            self._clients.append(client)
            try:
                pid = peer_pid(writer.get_extra_info("socket"))
                if await asyncio.to_thread(is_our_command, pid, gateway_pid=os.getpid()):
                    # It could answer approval requests as its own owner.
                    log.warning("a command of the agent tried to use the socket", account=self.account)
                    with contextlib.suppress(TimeoutError, ValueError):
                        async with asyncio.timeout(_REFUSED_SECONDS):
                            await reader.readline()  # whoever is still writing would not read the answer
                    client.say(type="error", problem="commands of the agent cannot talk to it here; closing")
                    return
                await self._converse(inlet, client, reader)
            except ConnectionError as error:
                log.debug("listener gone", problem=str(error))  # what it did not ack is sent again
            except Exception:  # contained: the other clients are still served
                log.exception("connection failed", account=self.account)
            finally:
                self._clients.remove(client)
                for waiting in client.unacked.values():
                    if not waiting.done():
                        waiting.set_exception(DeliveryInDoubt("the listener went away before it acked"))
                writer.close()

        try:
            self._path.unlink(missing_ok=True)  # of a dead gateway: the lock on the home shows that none runs
            server = await asyncio.start_unix_server(serve, self._path, limit=self._max_line_bytes)
            self._path.chmod(0o600)
        except OSError as error:
            raise PlatformUnavailable(
                f"the socket {self._path.name} cannot be opened: {error.strerror or error}"
            ) from error
        inlet.alive()
        try:
            await asyncio.Event().wait()
        finally:
            # Not `async with server`: from Python 3.12 on that waits for clients who may never leave.
            server.close()
            for client in self._clients:
                client.writer.close()
            self._path.unlink(missing_ok=True)

    async def send(self, message: OutboundMessage) -> Receipt:
        chat = message.address.chat
        client = next((client for client in reversed(self._clients) if chat in client.chats), None)
        if client is None:
            raise PlatformUnavailable(f"nobody listens to the chat {chat}")
        if len(client.unacked) >= _MAX_UNACKED:
            raise PlatformUnavailable(f"the listener to the chat {chat} does not ack")
        if client.writer.transport.get_write_buffer_size() > _MAX_UNREAD_BYTES:
            raise PlatformUnavailable(f"the listener to the chat {chat} does not read")
        acked = client.unacked[message.key] = asyncio.get_running_loop().create_future()
        try:
            client.say(
                type="message",
                key=message.key,
                chat=chat,
                text=message.text,
                reply_to=message.address.reply_to,
                answers=message.answers,
                notify=message.notify,
            )
            async with asyncio.timeout(_ACK_TIMEOUT_SECONDS):
                await acked
        except TimeoutError as error:
            raise DeliveryInDoubt("the listener did not ack in time") from error
        finally:
            client.unacked.pop(message.key, None)
        return Receipt(message_id=message.key)

    async def fetch(self, media: Media, max_bytes: int) -> bytes:
        return await asyncio.to_thread(_read_file, Path(media.reference), max_bytes)

    async def _converse(self, inlet: Inlet, client: _Client, reader: asyncio.StreamReader) -> None:
        handlers: dict[str, Callable[[dict[str, Any]], Any]] = {
            "message": lambda line: self._take(inlet, client, line),
            "listen": lambda line: self._listen(inlet, client, _chat(line)),
            "ack": lambda line: _acked(client, line),
        }
        while True:
            try:
                raw = await reader.readline()
            except ValueError:  # too long, and the start of the next line is unknown
                client.say(type="error", problem=f"a line may have {self._max_line_bytes} bytes at most; closing")
                return
            if not raw.endswith(b"\n"):
                return
            inlet.alive()
            try:
                line = _object(raw)
                handle = handlers.get(str(line.get("type")))
                if handle is None:
                    raise _BadLine(f'"type" must be one of {", ".join(handlers)}')
                await handle(line)
            except _BadLine as error:
                client.say(type="error", problem=str(error))
            await client.writer.drain()

    async def _take(self, inlet: Inlet, client: _Client, line: dict[str, Any]) -> None:
        message = _inbound(line, self.account)
        await self._listen(inlet, client, message.key.chat)
        about = {"id": message.message_id, "chat": message.key.chat}
        try:
            await inlet.accept([message], None)
        except (StoreUnavailable, GatewayStopping) as error:
            client.say(type="retry", problem=str(error), **about)
        else:
            client.say(type="ack", **about)

    async def _listen(self, inlet: Inlet, client: _Client, chat: str) -> None:
        if chat not in client.chats:
            client.chats.add(chat)
            await inlet.chat_reachable(chat)
        self._clients.remove(client)
        self._clients.append(client)


async def _acked(client: _Client, line: dict[str, Any]) -> None:
    waiting = client.unacked.get(str(line.get("key")))
    if waiting is not None and not waiting.done():
        waiting.set_result(None)


def _object(raw: bytes) -> dict[str, Any]:
    try:
        line = json.loads(raw)
        json.dumps(line, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise _BadLine("this line contains half a surrogate pair, which is not a character") from None
    except (ValueError, RecursionError):
        raise _BadLine("this line is not JSON; send one JSON object a line, in UTF-8") from None
    if not isinstance(line, dict):
        raise _BadLine("a line must be a JSON object")
    return line


def _inbound(line: dict[str, Any], account: str) -> InboundMessage:
    platform, _, name = account.partition("@")
    sender, identifier = str(line.get("sender") or "local"), line.get("id")
    if not isinstance(identifier, str) or not 0 < len(identifier) <= _MAX_ID_CHARS:
        raise _BadLine('"id" must be a text of your own that names this message, 200 characters at most')
    return InboundMessage(
        key=SessionKey(platform=platform, account=name, chat=_chat(line)),
        message_id=identifier,
        sender=Sender(id=sender, name=sender),
        parts=_parts(line),
        sent_ms=now_ms(),
    )


def _chat(line: dict[str, Any]) -> str:
    chat = line.get("chat", "main")
    if not isinstance(chat, str) or not _CHAT_NAME.fullmatch(chat):
        raise _BadLine('"chat" must be 1 to 64 letters, digits, dots, dashes or underscores')
    return chat


def _parts(line: dict[str, Any]) -> tuple[Part, ...]:
    text, files = line.get("text", ""), line.get("files", [])
    if not isinstance(text, str) or not isinstance(files, list) or not all(isinstance(name, str) for name in files):
        raise _BadLine('"text" must be a text and "files" a list of paths')
    if not text.strip() and not files:
        raise _BadLine('a message needs "text" or "files"')
    if any("\0" in name for name in files):
        raise _BadLine('a path in "files" cannot hold a zero character')
    parts: list[Part] = [Text(text=text)] if text else []
    for path in map(Path, files):
        mime = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        parts.append(Media(kind=media_kind(mime), name=path.name, mime=mime, reference=str(path)))
    return tuple(parts)


def _read_file(path: Path, max_bytes: int) -> bytes:
    try:
        # Does not block on a pipe without a writer; its type is checked before anything is read.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise MediaUnavailable("it is not a regular file")
            # The name, and the opened file, since it may be a link: `/proc/self/environ` holds our secrets.
            opened = Path(os.path.realpath(f"/proc/self/fd/{handle}"))
            if any(one.is_relative_to(folder) for one in (path, opened) for folder in SYSTEM_FOLDERS):
                raise MediaUnavailable("it is not a file on disk but generated by the kernel")
            content = file.read(max_bytes + 1)
    except OSError as error:
        raise MediaUnavailable(error.strerror or str(error)) from error
    if len(content) > max_bytes:
        raise MediaUnavailable(describe_size_limit(max_bytes))
    return content


def build(setup: AccountSetup, *, max_line_bytes: int, **_: object) -> SocketPlatform:
    return SocketPlatform(setup.socket_path, account=setup.account, max_line_bytes=max_line_bytes)


SOCKET = PlatformSpec(name="socket", hint="Your answers are read by a script: write plain text.", build=build)
