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
    NETWORK_ERRORS,
    DiscordRejection,
    Failure,
    check_response,
    classify_rejection,
    describe_failure,
    is_access_denied,
    translate_listening_errors,
    translate_send_error,
)
from gateway.platforms.discord.formatting import (
    DiscordAttachment,
    DiscordPost,
    Page,
    build_menu,
    build_post,
    is_menu_current,
    paginate,
    parse_address,
)
from gateway.platforms.discord.listener import DiscordListener
from gateway.platforms.discord.parsing import DiscordIdentity
from gateway.platforms.discord.sending import DRAFT_MARK, find_copy, find_own_draft
from gateway.platforms.discord.transport import PAGE, DiscordTransport
from gateway.platforms.outgoing import UPLOAD_SECONDS, Load, PageCache, Uploads
from gateway.platforms.rate_limit import Rate, RateLimits
from gateway.platforms.transport import LiveConnection, describe_size_limit, token_variable

log = structlog.get_logger()

_TOKEN = re.compile(r"[A-Za-z0-9_.-]+")
_DRAFTS = DraftStyle(interval_seconds=1.5, max_units=1_900)
_SEEN, _FAILED = "👀", "❌"
_UPLOAD_TIMEOUT = aiohttp.ClientTimeout(total=UPLOAD_SECONDS, connect=10.0)
_FAILURES = (discord.DiscordException, *NETWORK_ERRORS)


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
        rate_limits: RateLimits | None = None,
        load: Load | None = None,
    ) -> None:
        """`commands` are names and descriptions; those with a description become slash commands, the others can be
        typed. `load` returns the bytes of a file to send."""
        self.account = account
        # Less than Discord allows (5 and 50): after the last allowed one discord.py waits before it returns, and a
        # late receipt is one more chance to be in doubt.
        self.rate_limits = rate_limits or RateLimits(
            per_chat=Rate(count=4, seconds=5), overall=Rate(count=45, seconds=1)
        )
        self._token = token
        self._variable = token_variable(account, "DISCORD_BOT_TOKEN")
        self._api_url = api_url
        self._menu = build_menu(commands)
        self._commands = frozenset(name for name, _ in commands)
        self._own_threads = thread_per_conversation
        self._connection = LiveConnection[DiscordTransport]("Discord")
        self._spare: DiscordTransport | None = None  # closed; the next run resumes its session
        self._me: DiscordIdentity | None = None
        self._uploads = Uploads(load)
        self._pages = PageCache[Page](paginate)

    async def run(self, inlet: Inlet) -> None:
        if not self._token:
            raise PlatformAuthFailed(f"{self._variable} is not set; run `hermes config set {self._variable}`")
        if not _TOKEN.fullmatch(self._token):
            raise PlatformAuthFailed(
                f"{self._variable} is not a bot token. Get it at https://discord.com/developers/applications, under Bot"
            )
        spare, self._spare = self._spare, None
        async with (
            spare if spare is not None and spare.can_resume else DiscordTransport(self._api_url)
        ).hold() as transport:
            try:
                with translate_listening_errors(self._variable):
                    me = await self._sign_in(transport)
                    self._connection.open(transport)
                    await self._listen(transport, me, inlet)
            except StoreUnavailable as error:
                raise PlatformUnavailable(str(error)) from error
            except GatewayStopping:
                await asyncio.Event().wait()  # the history is read again later; we are about to be cancelled
            finally:
                self._connection.close()
                self._spare = transport if transport.can_resume else None

    async def send(self, message: OutboundMessage) -> Receipt:
        async with self._connection.transport.hold() as transport:
            post = self._build_post(message, transport)
            media = post.page.media if isinstance(post.page, DiscordAttachment) else None
            async with self._uploads.load(media) as content:
                if isinstance(post.page, DiscordAttachment):
                    post = replace(post, page=post.page.fit(content, _max_file_bytes(transport, post.chat)))
                message_id = await self._send_post(transport, post, content or b"")
        return Receipt(message_id=str(message_id), more=post.more)

    async def find_sent(self, message: OutboundMessage) -> Receipt | None:
        """Look among the messages after the answered one and after our last known one."""
        async with self._connection.transport.hold() as transport:
            # As if in a guild: its channels may not be known yet.
            post = build_post(message, self._paginate(message), in_guild=True)
            if post.edits is not None or self._me is None:
                return None  # an edit is simply repeated
            found = await self._find_copy(transport, post, message, self._me)
        return Receipt(message_id=str(found), more=post.more) if found is not None else None

    async def fetch(self, media: Media, max_bytes: int) -> bytes:
        if media.size_bytes > max_bytes:
            raise MediaUnavailable(describe_size_limit(max_bytes))
        transport = await self._connection.wait_for_transport()
        async with transport.hold():
            try:
                content = await transport.download(media.reference, max_bytes)
            except aiohttp.ClientResponseError as error:
                raise MediaUnavailable(f"Discord no longer has the file (status {error.status})") from error
            except NETWORK_ERRORS as error:
                raise MediaUnavailable(f"it could not be fetched from Discord: {describe_failure(error)}") from error
        if content is None:
            raise MediaUnavailable(describe_size_limit(max_bytes))
        return content

    async def show_typing(self, address: Address) -> None:
        if self.rate_limits.wait_seconds(address.chat) > 0:
            return  # the rest of the rate limit is kept for answers
        chat = parse_address(address)
        async with self._connection.transport.hold() as transport:
            try:
                await transport.http.send_typing(chat)
            except _FAILURES as error:
                raise self._translate_error(error, chat, repeatable=True) from error

    # Drafts and reactions.

    def draft_style(self, address: Address) -> DraftStyle | None:
        return _DRAFTS

    async def show_draft(self, draft: OutboundMessage) -> Receipt:
        marked = replace(draft, parts=(Text(text=DRAFT_MARK + draft.text),))
        async with self._connection.transport.hold() as transport:
            message_id = await self._send_post(transport, self._build_post(marked, transport), b"", is_draft=True)
        return Receipt(message_id=str(message_id))

    async def find_draft(self, draft: OutboundMessage, known: KnownMessages) -> Receipt | None:
        chat = parse_address(draft.address)
        async with self._connection.transport.hold() as transport:
            try:
                with check_response():
                    page = await _fetch_since(transport, chat, _find_predecessor(draft))
                    others = [one for one in page if one["id"] not in known.ids]
                    found = find_own_draft(others, self._me.id) if self._me is not None else None
            except _FAILURES as error:
                raise self._translate_error(error, chat, repeatable=True) from error
        return Receipt(message_id=str(found)) if found is not None else None

    async def delete(self, address: Address, message_id: str) -> None:
        chat = parse_address(address)
        async with self._connection.transport.hold() as transport:
            try:
                await transport.http.delete_message(chat, int(message_id))
            except discord.NotFound:
                return
            except _FAILURES as error:
                raise self._translate_error(error, chat, repeatable=True) from error

    async def react(self, address: Address, mark: Mark) -> None:
        chat, reply_to = parse_address(address), address.reply_to
        is_too_much = mark == "seen" and self.rate_limits.wait_seconds(address.chat) > 0
        if is_too_much or not (reply_to.isascii() and reply_to.isdecimal()):
            return
        async with self._connection.transport.hold() as transport:
            try:
                if mark != "seen":
                    with suppress(discord.NotFound):  # we never reacted
                        await transport.http.remove_own_reaction(chat, int(reply_to), _SEEN)
                if mark:
                    await transport.http.add_reaction(chat, int(reply_to), _SEEN if mark == "seen" else _FAILED)
            except _FAILURES as error:
                raise self._translate_error(error, chat, repeatable=True) from error

    # Listening.

    async def _sign_in(self, transport: DiscordTransport) -> DiscordIdentity:
        await transport.sign_in(self._token)
        assert transport.user is not None
        me = DiscordIdentity(
            account=self.account, id=transport.user.id, name=transport.user.name, commands=self._commands
        )
        if me != self._me:
            self._me = me
            log.info("signed in", account=self.account, bot=me.name)
            if transport.application is not None and transport.application.interactions_endpoint_url:
                log.warning(
                    "buttons and slash commands are sent to another server",
                    account=self.account,
                    meaning="the application has an Interactions Endpoint URL; remove it at "
                    "https://discord.com/developers/applications, under General Information",
                )
        return me

    async def _listen(self, transport: DiscordTransport, me: DiscordIdentity, inlet: Inlet) -> None:
        try:
            async with asyncio.TaskGroup() as background:
                background.create_task(self._set_menu(transport), name="set the slash commands")
                await DiscordListener(transport, me, inlet, background, own_threads=self._own_threads).listen()
        except ExceptionGroup as problems:
            raise problems.exceptions[0] from None  # the one that cancelled the others

    async def _set_menu(self, transport: DiscordTransport) -> None:
        assert transport.application_id is not None
        try:
            shown = await transport.http.get_global_commands(transport.application_id)
            with check_response():
                is_right = is_menu_current(self._menu, shown)
            if not is_right:
                await transport.http.bulk_upsert_global_commands(transport.application_id, self._menu)
        except _FAILURES as error:
            log.warning("slash commands not set", account=self.account, problem=describe_failure(error))

    # Sending.

    def _build_post(self, message: OutboundMessage, transport: DiscordTransport) -> DiscordPost:
        channel = transport.get_channel(parse_address(message.address))
        in_guild = isinstance(channel, discord.abc.GuildChannel | discord.Thread)
        return build_post(message, self._paginate(message), in_guild=in_guild)

    def _paginate(self, message: OutboundMessage) -> tuple[Page, ...]:
        return self._pages.get_pages(message, needs_words=bool(message.edits))

    async def _send_post(
        self, transport: DiscordTransport, post: DiscordPost, content: bytes, *, is_draft: bool = False
    ) -> int:
        """Send a post, dropping what Discord refuses. A lost draft is not sent again, and never becomes a file."""
        while True:
            try:
                return await _send(transport, post, content)
            except _FAILURES as error:
                problem = classify_rejection(error)
                amend = post.amend(problem) if problem is not None else None
                is_final = is_draft and problem in (DiscordRejection.NOTHING_TO_EDIT, DiscordRejection.TOO_LONG)
                if problem is None or amend is None or is_final:
                    raise self._translate_error(error, post.chat, repeatable=post.edits is not None) from error
                log.info("sent differently", account=self.account, chat=post.chat, problem=problem.name.lower())
                post = amend

    async def _find_copy(
        self, transport: DiscordTransport, post: DiscordPost, message: OutboundMessage, me: DiscordIdentity
    ) -> int | None:
        after = _find_predecessor(message)
        try:
            with check_response():
                page = await _fetch_since(transport, post.chat, after)
                others = [one for one in page if one["id"] != message.replaces]  # its draft may have the same text
                return find_copy(others, post, me.id, after)
        except _FAILURES as error:
            if is_access_denied(error):
                return None  # only the nonce can prevent a second copy
            raise self._translate_error(error, post.chat, repeatable=True) from error

    def _translate_error(self, error: Failure, chat: int, *, repeatable: bool) -> GatewayError:
        problem = translate_send_error(error, repeatable=repeatable)
        if isinstance(problem, PlatformUnavailable) and problem.retry_after is not None:
            self.rate_limits.pause(str(chat), problem.retry_after)
        return problem


async def _send(transport: DiscordTransport, post: DiscordPost, content: bytes) -> int:
    if post.edits is not None:
        path = "/channels/{channel_id}/messages/{message_id}"
        edit = Route("PATCH", path, channel_id=post.chat, message_id=post.edits)
        await transport.http.request(edit, json=post.payload)
        return post.edits
    route = Route("POST", "/channels/{channel_id}/messages", channel_id=post.chat)
    form = post.form(content)
    if form is None:
        sent = await transport.http.request(route, json=post.payload)
    else:
        sent = await transport.http.request(route, form=form, timeout=_UPLOAD_TIMEOUT)
    with check_response():
        return int(sent["id"])


async def _fetch_since(transport: DiscordTransport, chat: int, after: int) -> list[Any]:
    """Return messages after a known one, and the latest if they may not be all; `after` 0 means none is known."""
    page: list[Any] = []
    if after:
        page += await transport.http.logs_from(chat, PAGE, after=after)
    if not after or len(page) == PAGE:  # the message may be further down
        page += await transport.http.logs_from(chat, PAGE)
    return page


def _max_file_bytes(transport: DiscordTransport, chat: int) -> int:
    """Return the limit of the chat: boosted servers accept larger files."""
    channel = transport.get_channel(chat)
    guild = channel.guild if isinstance(channel, discord.abc.GuildChannel | discord.Thread) else None
    return guild.filesize_limit if guild is not None else discord.utils.DEFAULT_FILE_SIZE_LIMIT_BYTES


def _find_predecessor(message: OutboundMessage) -> int:
    """Return the newest message that it must come after; 0 where none is known."""
    ids = (*message.answers, message.address.reply_to, message.after)
    return max((int(one) for one in ids if one.isascii() and one.isdecimal()), default=0)
