"""Discord: the gateway in, REST out."""

import asyncio
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
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
from gateway.messages import Address, Media, OutboundMessage, Receipt, Text
from gateway.platforms.base import DraftStyle, Features, Inlet, KnownMessages, Mark
from gateway.platforms.discord.errors import (
    NETWORK,
    DiscordRejection,
    Failure,
    hearing_problems,
    is_closed_to_us,
    making_sense,
    refusal,
    sending_problem,
    what_happened,
)
from gateway.platforms.discord.formatting import (
    DiscordAttachment,
    DiscordPost,
    Page,
    is_shown,
    letter_of,
    menu_of,
    pages_of,
    place_of,
)
from gateway.platforms.discord.listener import DiscordListener
from gateway.platforms.discord.parsing import DiscordIdentity
from gateway.platforms.discord.sending import DRAFT_MARK, draft_in, found_in
from gateway.platforms.discord.transport import PAGE, DiscordTransport
from gateway.platforms.outgoing import UPLOAD_SECONDS, Load, Pages, Uploads
from gateway.platforms.rate_limit import Pace, Rate
from gateway.platforms.transport import LiveConnection, token_variable, too_large

log = structlog.get_logger()

_TOKEN = re.compile(r"[A-Za-z0-9_.-]+")
_DRAFTS = DraftStyle(interval_seconds=1.5, max_units=1_900)
_SEEN, _FAILED = "👀", "❌"
_UPLOAD_TIMEOUT = aiohttp.ClientTimeout(total=UPLOAD_SECONDS, connect=10.0)
_FAILURES = (discord.DiscordException, *NETWORK)


class DiscordPlatform:
    features = Features(
        resend="lookup",
        quiet_seconds=60,
        sends_files=True,
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
        load: Load | None = None,
    ) -> None:
        """`commands` are names and descriptions; those that have one become slash commands, the others can be typed.
        `load` gives the bytes of files to be sent."""
        self.account = account
        # Less than Discord allows (5 and 50): with the last that it does, discord.py waits before it says that all is
        # well, and a receipt that comes seconds late is one more chance to be in doubt.
        self.pace = pace or Pace(per_chat=Rate(count=4, seconds=5), overall=Rate(count=45, seconds=1))
        self._token = token
        self._variable = token_variable(account, "DISCORD_BOT_TOKEN")
        self._api_url = api_url
        self._menu = menu_of(commands)
        self._commands = frozenset(name for name, _ in commands)
        self._own_threads = thread_per_conversation
        self._connection = LiveConnection[DiscordTransport]("Discord")
        self._spare: DiscordTransport | None = None  # closed; the next run takes its session up again
        self._me: DiscordIdentity | None = None
        self._uploads = Uploads(load)
        self._pages = Pages[Page](pages_of)

    async def run(self, inlet: Inlet) -> None:
        if not self._token:
            raise PlatformAuthFailed(f"{self._variable} is not set; run `hermes config set {self._variable}`")
        if not _TOKEN.fullmatch(self._token):
            raise PlatformAuthFailed(
                f"{self._variable} is no bot token; https://discord.com/developers/applications shows it, under Bot"
            )
        spare, self._spare = self._spare, None
        async with (
            spare if spare is not None and spare.can_resume else DiscordTransport(self._api_url)
        ).held() as line:
            try:
                with hearing_problems(self._variable):
                    me = await self._introduced(line)
                    self._connection.open(line)
                    await self._listen(line, me, inlet)
            except StoreUnavailable as error:
                raise PlatformUnavailable(str(error)) from error
            except GatewayStopping:
                await asyncio.Event().wait()  # what was offered is read again later; we are about to be cancelled
            finally:
                self._connection.close()
                self._spare = line if line.can_resume else None

    async def send(self, message: OutboundMessage) -> Receipt:
        async with self._connection.line.held() as line:
            letter = self._letter_of(message, line)
            media = letter.page.media if isinstance(letter.page, DiscordAttachment) else None
            async with self._uploads.loaded(media) as content:
                if isinstance(letter.page, DiscordAttachment):
                    letter = replace(letter, page=letter.page.fitting(content, _max_file_bytes(line, letter.chat)))
                message_id = await self._post(line, letter, content or b"")
        return Receipt(message_id=str(message_id), more=letter.more)

    async def find_sent(self, message: OutboundMessage) -> Receipt | None:
        """Among what was said since the message that it answers, and since the last of ours that is known."""
        async with self._connection.line.held() as line:
            # As in a guild, whose channels we may not have been told of yet.
            letter = letter_of(message, self._pages_of(message), in_guild=True)
            if letter.edits is not None or self._me is None:
                return None  # an edit is simply made again
            found = await self._look_for(line, letter, message, self._me)
        return Receipt(message_id=str(found), more=letter.more) if found is not None else None

    async def fetch(self, media: Media, max_bytes: int) -> bytes:
        if media.size_bytes > max_bytes:
            raise MediaUnavailable(too_large(max_bytes))
        line = await self._connection.line_soon()
        async with line.held():
            try:
                content = await line.download(media.reference, max_bytes)
            except aiohttp.ClientResponseError as error:
                raise MediaUnavailable(f"Discord no longer has the file (status {error.status})") from error
            except NETWORK as error:
                raise MediaUnavailable(f"it could not be fetched from Discord: {what_happened(error)}") from error
        if content is None:
            raise MediaUnavailable(too_large(max_bytes))
        return content

    async def show_typing(self, address: Address) -> None:
        if self.pace.wait_seconds(address.chat) > 0:
            return  # what little we may say is kept for answers
        chat = place_of(address)
        async with self._connection.line.held() as line:
            try:
                await line.http.send_typing(chat)
            except _FAILURES as error:
                raise self._problem(error, chat, repeatable=True) from error

    # What may be shown or not.

    def draft_style(self, address: Address) -> DraftStyle | None:
        return _DRAFTS

    async def show_draft(self, draft: OutboundMessage) -> Receipt:
        marked = replace(draft, parts=(Text(text=DRAFT_MARK + draft.text),))
        async with self._connection.line.held() as line:
            message_id = await self._post(line, self._letter_of(marked, line), b"", is_draft=True)
        return Receipt(message_id=str(message_id))

    async def find_draft(self, draft: OutboundMessage, known: KnownMessages) -> Receipt | None:
        chat = place_of(draft.address)
        async with self._connection.line.held() as line:
            try:
                with making_sense():
                    page = await _since(line, chat, _after(draft))
                    others = [one for one in page if one["id"] not in known.ids]
                    found = draft_in(others, self._me.id) if self._me is not None else None
            except _FAILURES as error:
                raise self._problem(error, chat, repeatable=True) from error
        return Receipt(message_id=str(found)) if found is not None else None

    async def take_away(self, address: Address, message_id: str) -> None:
        chat = place_of(address)
        async with self._connection.line.held() as line:
            try:
                await line.http.delete_message(chat, int(message_id))
            except discord.NotFound:
                return
            except _FAILURES as error:
                raise self._problem(error, chat, repeatable=True) from error

    async def react(self, address: Address, mark: Mark) -> None:
        chat, reply_to = place_of(address), address.reply_to
        is_too_much = mark == "seen" and self.pace.wait_seconds(address.chat) > 0
        if is_too_much or not (reply_to.isascii() and reply_to.isdecimal()):
            return
        async with self._connection.line.held() as line:
            try:
                if mark != "seen":
                    with suppress(discord.NotFound):  # it was never put there
                        await line.http.remove_own_reaction(chat, int(reply_to), _SEEN)
                if mark:
                    await line.http.add_reaction(chat, int(reply_to), _SEEN if mark == "seen" else _FAILED)
            except _FAILURES as error:
                raise self._problem(error, chat, repeatable=True) from error

    # Listening.

    async def _introduced(self, line: DiscordTransport) -> DiscordIdentity:
        await line.sign_in(self._token)
        assert line.user is not None
        me = DiscordIdentity(account=self.account, id=line.user.id, name=line.user.name, commands=self._commands)
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

    async def _listen(self, line: DiscordTransport, me: DiscordIdentity, inlet: Inlet) -> None:
        try:
            async with asyncio.TaskGroup() as background:
                background.create_task(self._set_menu(line), name="set the slash commands")
                await DiscordListener(line, me, inlet, background, own_threads=self._own_threads).listen()
        except ExceptionGroup as problems:
            raise problems.exceptions[0] from None  # the one that ended the others

    async def _set_menu(self, line: DiscordTransport) -> None:
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

    def _letter_of(self, message: OutboundMessage, line: DiscordTransport) -> DiscordPost:
        channel = line.get_channel(place_of(message.address))
        in_guild = isinstance(channel, discord.abc.GuildChannel | discord.Thread)
        return letter_of(message, self._pages_of(message), in_guild=in_guild)

    def _pages_of(self, message: OutboundMessage) -> tuple[Page, ...]:
        return self._pages.of(message, needs_words=bool(message.edits))

    async def _post(
        self, line: DiscordTransport, letter: DiscordPost, content: bytes, *, is_draft: bool = False
    ) -> int:
        """A draft that is gone is not sent once more, and does not become a file."""
        while True:
            try:
                return await _put(line, letter, content)
            except _FAILURES as error:
                problem = refusal(error)
                amended = letter.amended(problem) if problem is not None else None
                is_final = is_draft and problem in (DiscordRejection.NOTHING_TO_EDIT, DiscordRejection.TOO_LONG)
                if problem is None or amended is None or is_final:
                    raise self._problem(error, letter.chat, repeatable=letter.edits is not None) from error
                log.info("sent differently", account=self.account, chat=letter.chat, problem=problem.name.lower())
                letter = amended

    async def _look_for(
        self, line: DiscordTransport, letter: DiscordPost, message: OutboundMessage, me: DiscordIdentity
    ) -> int | None:
        after = _after(message)
        try:
            with making_sense():
                page = await _since(line, letter.chat, after)
                others = [one for one in page if one["id"] != message.replaces]  # its draft may say the same
                return found_in(others, letter, me.id, after)
        except _FAILURES as error:
            if is_closed_to_us(error):
                return None  # the nonce is all that keeps it from coming twice
            raise self._problem(error, letter.chat, repeatable=True) from error

    def _problem(self, error: Failure, chat: int, *, repeatable: bool) -> GatewayError:
        problem = sending_problem(error, repeatable=repeatable)
        if isinstance(problem, PlatformUnavailable) and problem.retry_after is not None:
            self.pace.rest(str(chat), problem.retry_after)
        return problem


async def _put(line: DiscordTransport, letter: DiscordPost, content: bytes) -> int:
    if letter.edits is not None:
        path = "/channels/{channel_id}/messages/{message_id}"
        edit = Route("PATCH", path, channel_id=letter.chat, message_id=letter.edits)
        await line.http.request(edit, json=letter.payload)
        return letter.edits
    route = Route("POST", "/channels/{channel_id}/messages", channel_id=letter.chat)
    form = letter.form(content)
    if form is None:
        sent = await line.http.request(route, json=letter.payload)
    else:
        sent = await line.http.request(route, form=form, timeout=_UPLOAD_TIMEOUT)
    with making_sense():
        return int(sent["id"])


async def _since(line: DiscordTransport, chat: int, after: int) -> list[Any]:
    """What was said there behind a message, as far as it is likely to matter; 0 where none is known."""
    page: list[Any] = []
    if after:
        page += await line.http.logs_from(chat, PAGE, after=after)
    if not after or len(page) == PAGE:  # what is looked for may be further down
        page += await line.http.logs_from(chat, PAGE)
    return page


def _max_file_bytes(line: DiscordTransport, chat: int) -> int:
    """A server whose members pay for it takes larger ones."""
    channel = line.get_channel(chat)
    guild = channel.guild if isinstance(channel, discord.abc.GuildChannel | discord.Thread) else None
    return guild.filesize_limit if guild is not None else discord.utils.DEFAULT_FILE_SIZE_LIMIT_BYTES


def _after(message: OutboundMessage) -> int:
    """The newest message that it must stand behind; 0 where none is known."""
    ids = (*message.answers, message.address.reply_to, message.after)
    return max((int(one) for one in ids if one.isascii() and one.isdecimal()), default=0)
