"""The base of platforms that send posts through a client: one way to send, react, fetch and translate errors."""

import asyncio
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from typing import ClassVar, Generic, Protocol, TypeVar

import structlog

from gateway.errors import (
    GatewayError,
    GatewayStopping,
    MediaUnavailable,
    PlatformAuthFailed,
    PlatformUnavailable,
    StoreUnavailable,
)
from gateway.messages import Address, Media, OutboundMessage, Receipt
from gateway.platforms.base import Mark
from gateway.platforms.outgoing import Attachment, Formatted, OutgoingPost, Page, Pages, Rejection, Uploads
from gateway.platforms.rate_limit import RateLimits
from gateway.platforms.spec import AccountSetup
from gateway.platforms.text import describe_size_limit
from gateway.platforms.transport import LiveConnection, SharedTransport

log = structlog.get_logger()

ClientT = TypeVar("ClientT")


class TranslateSendError(Protocol):
    def __call__(self, error: Exception, *, repeatable: bool) -> GatewayError: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatService:
    """The differences between platforms in how messages and errors are written."""

    name: str  # as people write it
    pages: Pages
    strip: Callable[[Formatted], Formatted]  # a text of its formatting
    failures: tuple[type[Exception], ...]  # that a client raises
    classify: Callable[[Exception], Rejection | None]  # why a post was refused; None for any other failure
    translate: TranslateSendError  # `repeatable` calls do no harm when done twice, such as an edit
    translate_listening: Callable[[Exception, str], GatewayError]  # with the variable that holds the token


class ChatPlatform(ABC, Generic[ClientT]):
    service: ClassVar[ChatService]

    def __init__(self, setup: AccountSetup, rate_limits: RateLimits) -> None:
        self.account = setup.account
        self.rate_limits = rate_limits
        self._commands = {command.name: command for command in setup.commands}
        self._connection = LiveConnection[SharedTransport[ClientT]](self.service.name)
        self._uploads = Uploads(setup.load)

    @abstractmethod
    def _build_post(self, client: ClientT, message: OutboundMessage, pages: tuple[Page, ...]) -> OutgoingPost:
        """Raises DeliveryRejected for an address that is none."""

    @abstractmethod
    async def _send(self, client: ClientT, post: OutgoingPost, content: bytes) -> str:
        """Send a post once and return its id. `content` is that of an attached file."""

    @abstractmethod
    async def _download(self, client: ClientT, media: Media, max_bytes: int) -> bytes | None:
        """Return None if it is larger. Raises MediaUnavailable."""

    @abstractmethod
    async def _set_reaction(self, client: ClientT, address: Address, mark: Mark) -> None: ...

    def _max_file_bytes(self, client: ClientT, post: OutgoingPost) -> int:
        return 1 << 40

    def _fit(self, page: Attachment, content: bytes) -> Attachment:
        """Change the style of a file that the platform would refuse."""
        return page

    @contextmanager
    def _listening_errors(self, variable: str) -> Iterator[None]:
        """Turn errors while listening into those that the supervisor handles."""
        try:
            yield
        except self.service.failures as error:
            raise self.service.translate_listening(error, variable) from error

    @asynccontextmanager
    async def _connected(self, transport: SharedTransport[ClientT]) -> AsyncIterator[None]:
        """Let others use the transport while the block listens, and translate errors of the store."""
        self._connection.open(transport)
        try:
            yield
        except StoreUnavailable as error:
            raise PlatformUnavailable(str(error)) from error
        except GatewayStopping:
            await asyncio.Event().wait()  # the platform keeps what it offered; we are about to be cancelled
        finally:
            self._connection.close()

    @asynccontextmanager
    async def _client(self, chat: str) -> AsyncIterator[ClientT]:
        """Give the client for calls that do no harm when repeated, and translate their errors."""
        async with self._connection.transport.hold() as client:
            try:
                yield client
            except self.service.failures as error:
                raise await self._explain(error, chat, repeatable=True) from error

    async def _explain(self, error: Exception, chat: str, *, repeatable: bool) -> GatewayError:
        problem = self.service.translate(error, repeatable=repeatable)
        if isinstance(problem, PlatformUnavailable) and problem.retry_after is not None:
            self.rate_limits.pause(chat, problem.retry_after)
        return problem

    def _get_pages(self, message: OutboundMessage) -> tuple[Page, ...]:
        return self.service.pages.get_pages(message, needs_words=bool(message.edits))

    async def send(self, message: OutboundMessage) -> Receipt:
        pages = self._get_pages(message)
        async with self._connection.transport.hold() as client:
            post = self._build_post(client, message, pages)
            media = post.page.media if isinstance(post.page, Attachment) else None
            async with self._uploads.load(media) as content:
                if isinstance(post.page, Attachment):
                    page = post.page.fit(content, self._max_file_bytes(client, post), self.service.name)
                    post = replace(post, page=self._fit(page, content or b"") if isinstance(page, Attachment) else page)
                message_id = await self._send_post(client, post, content or b"")
        return Receipt(message_id=message_id, more=post.more)

    async def show_draft(self, draft: OutboundMessage) -> Receipt:
        async with self._connection.transport.hold() as client:
            post = self._build_post(client, draft, self.service.pages.paginate(draft.text, needs_words=True))
            return Receipt(message_id=await self._send_post(client, post, b"", is_draft=True))

    async def _send_post(self, client: ClientT, post: OutgoingPost, content: bytes, *, is_draft: bool = False) -> str:
        """Send a post, dropping what is refused. A lost draft is not sent again, and never becomes a file."""
        while True:
            try:
                return await self._send(client, post, content)
            except self.service.failures as error:
                problem = self.service.classify(error)
                is_final = is_draft and problem in (Rejection.NOTHING_TO_EDIT, Rejection.TOO_LONG)
                if (
                    problem is None
                    or is_final
                    or (amended := post.amend(problem, self.service.strip, self.service.name)) is None
                ):
                    raise await self._explain(error, post.chat, repeatable=bool(post.edits)) from error
                log.info("sent differently", account=self.account, chat=post.chat, problem=problem.name.lower())
                post = amended

    async def react(self, address: Address, mark: Mark) -> None:
        if mark != "seen" or self.rate_limits.wait_seconds(address.chat) <= 0:  # else it is kept for answers
            async with self._client(address.chat) as client:
                await self._set_reaction(client, address, mark)

    async def fetch(self, media: Media, max_bytes: int) -> bytes:
        content = None
        if media.size_bytes <= max_bytes:
            transport = await self._connection.wait_for_transport()
            async with transport.hold() as client:
                content = await self._download(client, media, max_bytes)
        if content is None:
            raise MediaUnavailable(describe_size_limit(max_bytes))
        return content


def check_token(variable: str, token: str, pattern: str, help_text: str) -> None:
    """Raises PlatformAuthFailed."""
    if not token:
        raise PlatformAuthFailed(f"{variable} is not set; run `hermes config set {variable}`")
    if not re.fullmatch(pattern, token):
        raise PlatformAuthFailed(f"{variable} is not {help_text}")
