"""Discord: the gateway in, REST out."""

import asyncio
import re
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import discord
import structlog
from discord.http import Route

from gateway.errors import (
    GatewayError,
    GatewayStopping,
    MediaUnavailable,
    PlatformAuthFailed,
    PlatformUnavailable,
    StoreUnavailable,
)
from gateway.messages import Address, Media, OutboundMessage, Receipt
from gateway.platforms.base import Features, Inlet
from gateway.platforms.discord.commands import is_shown, menu_of
from gateway.platforms.discord.errors import (
    NETWORK,
    Failure,
    hearing_problems,
    is_closed_to_us,
    making_sense,
    refusal,
    sending_problem,
    what_happened,
)
from gateway.platforms.discord.letter import Letter, Page, letter_of, pages_of, place_of
from gateway.platforms.discord.line import PAGE, Line
from gateway.platforms.discord.listening import Listener
from gateway.platforms.discord.sent import found_in
from gateway.platforms.discord.updates import Me
from gateway.platforms.pace import Pace, Rate

log = structlog.get_logger()

_TOKEN = re.compile(r"[A-Za-z0-9_.-]+")
_LINE_PATIENCE_SECONDS = 30.0  # for a file that is wanted while we are still connecting
_REMEMBERED_TEXTS = 32
_REMEMBERED_RECEIPTS = 1_000
_FAILURES = (discord.DiscordException, *NETWORK)


class DiscordPlatform:
    features = Features(
        resend="lookup",
        hint=(
            "You speak in a Discord chat. Markdown is shown: bold, italics, code, links, lists, quotes and headings; "
            "tables are shown as monospace text, so keep them narrow. Keep answers short."
        ),
        quiet_seconds=60,
    )

    def __init__(
        self,
        token: str,
        *,
        account: str = "discord",
        api_url: str = "https://discord.com/api/v10",
        commands: Sequence[tuple[str, str]] = (),
        thread_per_conversation: bool = False,
        pace: Pace | None = None,
    ) -> None:
        """`commands` are names and descriptions; those that have one become slash commands."""
        self.account = account
        # Less than Discord allows (5 and 50): with the last that it does, discord.py waits before it says that all is
        # well, and a receipt that comes seconds late is one more chance to be in doubt.
        self.pace = pace or Pace(per_chat=Rate(count=4, seconds=5), overall=Rate(count=45, seconds=1))
        self._token = token
        self._api_url = api_url
        self._menu = menu_of(commands)
        self._own_threads = thread_per_conversation
        self._line: Line | None = None
        self._has_line = asyncio.Event()
        self._spare: Line | None = None  # closed; the next run takes its session up again
        self._me: Me | None = None
        self._pages: OrderedDict[str, tuple[str, tuple[Page, ...]]] = OrderedDict()
        self._receipts: OrderedDict[int, str] = OrderedDict()

    async def run(self, inlet: Inlet) -> None:
        if not self._token:
            raise PlatformAuthFailed(f"{self._variable} is not set; run `hermes config set {self._variable}`")
        if not _TOKEN.fullmatch(self._token):
            raise PlatformAuthFailed(
                f"{self._variable} is no bot token; https://discord.com/developers/applications shows it, under Bot"
            )
        spare, self._spare = self._spare, None
        async with (spare if spare is not None and spare.can_resume else Line(self._api_url)).held() as line:
            try:
                with hearing_problems(self._variable):
                    me = await self._introduced(line)
                    self._line = line
                    self._has_line.set()
                    await self._listen(line, me, inlet)
            except StoreUnavailable as error:
                raise PlatformUnavailable(str(error)) from error
            except GatewayStopping:
                await asyncio.Event().wait()  # what was offered is read again later; we are about to be cancelled
            finally:
                self._line = None
                self._has_line.clear()
                self._spare = line if line.can_resume else None

    async def send(self, message: OutboundMessage) -> Receipt:
        async with self._connected() as line:
            letter = self._letter_of(message, line)
            message_id = await self._post(line, letter)
        return Receipt(message_id=str(message_id), more=letter.more)

    async def find_sent(self, message: OutboundMessage) -> Receipt | None:
        """Among what was said since the message that it answers, or lately."""
        async with self._connected() as line:
            letter = self._letter_of(message, line)
            if letter.edits is not None or self._me is None:
                return None  # an edit is simply made again
            found = await self._look_for(line, letter, _answered(message), self._me)
        return Receipt(message_id=str(found), more=letter.more) if found is not None else None

    async def fetch(self, media: Media, max_bytes: int) -> bytes:
        too_large = MediaUnavailable(f"it is larger than {max_bytes // 1_000_000} MB")
        if media.size_bytes > max_bytes:
            raise too_large
        line = await self._line_soon()
        async with line.held():
            try:
                content = await line.download(media.reference, max_bytes)
            except aiohttp.ClientResponseError as error:
                raise MediaUnavailable(f"Discord no longer has the file (status {error.status})") from error
            except NETWORK as error:
                raise MediaUnavailable(f"it could not be fetched from Discord: {what_happened(error)}") from error
        if content is None:
            raise too_large
        return content

    async def show_typing(self, address: Address) -> None:
        if self.pace.wait_seconds(address.chat) > 0:
            return  # what little we may say is kept for answers
        chat = place_of(address)
        async with self._connected() as line:
            try:
                await line.http.send_typing(chat)
            except _FAILURES as error:
                raise self._problem(error, chat, repeatable=True) from error

    # Listening.

    async def _introduced(self, line: Line) -> Me:
        await line.sign_in(self._token)
        assert line.user is not None
        me = Me(account=self.account, id=line.user.id, name=line.user.name)
        if me != self._me:
            self._me = me
            log.info("signed in", account=self.account, bot=me.name)
            if line.application is not None and line.application.interactions_endpoint_url:
                log.warning(
                    "buttons and slash commands go elsewhere",
                    account=self.account,
                    meaning="the application has an Interactions Endpoint URL; take it out at "
                    "https://discord.com/developers/applications, under General Information",
                )
        return me

    async def _listen(self, line: Line, me: Me, inlet: Inlet) -> None:
        try:
            async with asyncio.TaskGroup() as background:
                background.create_task(self._set_menu(line), name="set the slash commands")
                await Listener(line, me, inlet, background, own_threads=self._own_threads).listen()
        except ExceptionGroup as problems:
            raise problems.exceptions[0] from None  # the one that ended the others

    async def _set_menu(self, line: Line) -> None:
        assert line.application_id is not None
        try:
            shown = await line.http.get_global_commands(line.application_id)
            with making_sense():
                is_right = is_shown(self._menu, shown)
            if not is_right:
                await line.http.bulk_upsert_global_commands(line.application_id, self._menu)
        except _FAILURES as error:
            log.warning("slash commands not set", account=self.account, problem=what_happened(error))

    # Sending.

    def _letter_of(self, message: OutboundMessage, line: Line) -> Letter:
        channel = line.get_channel(place_of(message.address))
        in_guild = isinstance(channel, discord.abc.GuildChannel | discord.Thread)
        return letter_of(message, self._pages_of(message), in_guild=in_guild)

    def _pages_of(self, message: OutboundMessage) -> tuple[Page, ...]:
        text = message.text
        known, pages = self._pages.get(message.key, ("", ()))
        if known != text:
            pages = pages_of(text)
        if len(pages) > 1:  # its other pieces come soon
            self._pages[message.key] = text, pages
            self._pages.move_to_end(message.key)
            while len(self._pages) > _REMEMBERED_TEXTS:
                self._pages.popitem(last=False)
        return pages

    async def _post(self, line: Line, letter: Letter) -> int:
        while True:
            try:
                message_id = await _put(line, letter)
            except _FAILURES as error:
                problem = refusal(error)
                amended = letter.amended(problem) if problem is not None else None
                if problem is None or amended is None:
                    raise self._problem(error, letter.chat, repeatable=letter.edits is not None) from error
                log.info("sent differently", account=self.account, chat=letter.chat, problem=problem.name.lower())
                letter = amended
            else:
                self._receipts[message_id] = letter.nonce
                while len(self._receipts) > _REMEMBERED_RECEIPTS:
                    self._receipts.popitem(last=False)
                return message_id

    async def _look_for(self, line: Line, letter: Letter, after: int | None, me: Me) -> int | None:
        try:
            with making_sense():
                page: list[Any] = []
                if after is not None:
                    page += await line.http.logs_from(letter.chat, PAGE, after=after)
                if after is None or len(page) == PAGE:  # it may be further down
                    page += await line.http.logs_from(letter.chat, PAGE)
                return found_in(page, letter, me.id, self._receipts)
        except _FAILURES as error:
            if is_closed_to_us(error):
                return None  # the nonce is all that keeps it from coming twice
            raise self._problem(error, letter.chat, repeatable=True) from error

    def _problem(self, error: Failure, chat: int, *, repeatable: bool) -> GatewayError:
        problem = sending_problem(error, repeatable=repeatable)
        if isinstance(problem, PlatformUnavailable) and problem.retry_after is not None:
            self.pace.rest(str(chat), problem.retry_after)
        return problem

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Line]:
        if self._line is None:
            raise PlatformUnavailable("not connected to Discord")
        async with self._line.held() as line:
            yield line

    async def _line_soon(self) -> Line:
        try:
            async with asyncio.timeout(_LINE_PATIENCE_SECONDS):
                while self._line is None:
                    await self._has_line.wait()
        except TimeoutError:
            raise MediaUnavailable("Discord could not be reached") from None
        return self._line

    @property
    def _variable(self) -> str:
        name = self.account.partition("@")[2]
        return f"DISCORD_BOT_TOKEN_{name.upper()}" if name else "DISCORD_BOT_TOKEN"


async def _put(line: Line, letter: Letter) -> int:
    if letter.edits is not None:
        path = "/channels/{channel_id}/messages/{message_id}"
        edit = Route("PATCH", path, channel_id=letter.chat, message_id=letter.edits)
        await line.http.request(edit, json=letter.payload)
        return letter.edits
    route = Route("POST", "/channels/{channel_id}/messages", channel_id=letter.chat)
    form = letter.form
    sent = await line.http.request(route, **({"json": letter.payload} if form is None else {"form": form}))
    with making_sense():
        return int(sent["id"])


def _answered(message: OutboundMessage) -> int | None:
    """The newest message that it answers."""
    ids = [int(one) for one in (*message.answers, message.address.reply_to) if one.isascii() and one.isdecimal()]
    return max(ids, default=None)
