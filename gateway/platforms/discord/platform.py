"""Discord: the gateway in, REST out."""

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import Any

import aiohttp
import discord
import structlog
from discord.http import Route

from gateway.errors import MediaUnavailable
from gateway.messages import Address, Media, OutboundMessage, Receipt, Text
from gateway.platforms.base import DraftStyle, Features, Inlet, KnownMessages, Mark
from gateway.platforms.chat import ChatPlatform, ChatService, check_token
from gateway.platforms.discord.errors import (
    NETWORK_ERRORS,
    check_response,
    classify_rejection,
    describe_failure,
    is_access_denied,
    translate_listening_error,
    translate_send_error,
)
from gateway.platforms.discord.formatting import (
    PAGES,
    build_discord_post,
    build_form,
    build_menu,
    build_payload,
    keep_id,
    parse_address,
)
from gateway.platforms.discord.listener import DiscordListener
from gateway.platforms.discord.markdown import strip_marks
from gateway.platforms.discord.parsing import DiscordIdentity
from gateway.platforms.discord.sending import DRAFT_MARK, find_copy, find_own_draft
from gateway.platforms.discord.transport import PAGE, DiscordTransport
from gateway.platforms.outgoing import UPLOAD_SECONDS, OutgoingPost, Page
from gateway.platforms.rate_limit import RateLimits
from gateway.platforms.spec import AccountSetup
from gateway.platforms.transport import first_error, token_variable

log = structlog.get_logger()

_DRAFTS = DraftStyle(interval_seconds=1.5, max_units=1_900)
_SEEN, _FAILED = "👀", "❌"
_UPLOAD_TIMEOUT = aiohttp.ClientTimeout(total=UPLOAD_SECONDS, connect=10.0)
_FAILURES = (discord.DiscordException, *NETWORK_ERRORS)


class DiscordPlatform(ChatPlatform[DiscordTransport]):
    service = ChatService(
        name="Discord",
        pages=PAGES,
        strip=strip_marks,
        failures=_FAILURES,
        classify=classify_rejection,
        translate=translate_send_error,
        translate_listening=translate_listening_error,
    )
    features = Features(resend="lookup", quiet_seconds=60, sends_files=True)

    def __init__(
        self, setup: AccountSetup, *, api_url: str, thread_per_conversation: bool, rate_limits: RateLimits
    ) -> None:
        super().__init__(setup, rate_limits)
        [self._token] = setup.tokens
        self._variable = token_variable(setup.account, "DISCORD_BOT_TOKEN")
        self._api_url = api_url
        self._menu = build_menu(setup.commands)
        self._menu_is_set = False
        self._own_threads = thread_per_conversation
        self._spare: DiscordTransport | None = None  # closed; the next run resumes its session
        self._me: DiscordIdentity | None = None

    async def run(self, inlet: Inlet) -> None:
        help_text = "a bot token. Get it at https://discord.com/developers/applications, under Bot"
        check_token(self._variable, self._token, r"[A-Za-z0-9_.-]+", help_text)
        spare, self._spare = self._spare, None
        transport = spare if spare is not None and spare.can_resume else DiscordTransport(self._api_url)
        async with transport.hold():
            try:
                with self._listening_errors(self._variable):
                    me = await self._sign_in(transport)
                    async with self._connected(transport):
                        await self._listen(transport, me, inlet)
            finally:
                self._spare = transport if transport.can_resume else None

    async def find_sent(self, message: OutboundMessage) -> Receipt | None:
        """Look among the messages after the answered one and after our last known one."""
        post = build_discord_post(message, self._get_pages(message), in_guild=True)  # its channels may not be known yet
        if post.edits or self._me is None:
            return None  # an edit is simply repeated
        after = _find_predecessor(message)
        async with self._client(post.chat) as transport:
            try:
                with check_response():
                    page = await _fetch_since(transport, int(post.chat), after)
                    others = [one for one in page if one["id"] != message.replaces]  # its draft may have the same text
                    found = find_copy(others, post, self._me.id, after)
            except _FAILURES as error:
                if is_access_denied(error):
                    return None  # only the nonce can prevent a second copy
                raise
        return Receipt(message_id=str(found), more=post.more) if found is not None else None

    async def _download(self, client: DiscordTransport, media: Media, max_bytes: int) -> bytes | None:
        try:
            return await client.download(media.reference, max_bytes)
        except aiohttp.ClientResponseError as error:
            raise MediaUnavailable(f"Discord no longer has the file (status {error.status})") from error
        except NETWORK_ERRORS as error:
            raise MediaUnavailable(f"it could not be fetched from Discord: {describe_failure(error)}") from error

    async def show_typing(self, address: Address) -> None:
        if self.rate_limits.wait_seconds(address.chat) <= 0:  # else the rest of the rate limit is kept for answers
            async with self._client(address.chat) as transport:
                await transport.http.send_typing(parse_address(address))

    # Drafts and reactions.

    def draft_style(self, address: Address) -> DraftStyle | None:
        return _DRAFTS

    async def show_draft(self, draft: OutboundMessage) -> Receipt:
        return await super().show_draft(replace(draft, parts=(Text(text=DRAFT_MARK + draft.text),)))

    async def find_draft(self, draft: OutboundMessage, known: KnownMessages) -> Receipt | None:
        chat = parse_address(draft.address)
        async with self._client(str(chat)) as transport:
            with check_response():
                page = await _fetch_since(transport, chat, _find_predecessor(draft))
                others = [one for one in page if one["id"] not in known.ids]
                found = find_own_draft(others, self._me.id) if self._me is not None else None
        return Receipt(message_id=str(found)) if found is not None else None

    async def delete(self, address: Address, message_id: str) -> None:
        async with self._client(address.chat) as transport:
            with suppress(discord.NotFound):
                await transport.http.delete_message(parse_address(address), int(message_id))

    async def _set_reaction(self, client: DiscordTransport, address: Address, mark: Mark) -> None:
        chat, reply_to = parse_address(address), keep_id(address.reply_to)
        if reply_to and mark != "seen":
            with suppress(discord.NotFound):  # we never reacted
                await client.http.remove_own_reaction(chat, int(reply_to), _SEEN)
        if reply_to and mark:
            await client.http.add_reaction(chat, int(reply_to), _SEEN if mark == "seen" else _FAILED)

    # Listening.

    async def _sign_in(self, transport: DiscordTransport) -> DiscordIdentity:
        await transport.sign_in(self._token)
        assert transport.user is not None
        me = DiscordIdentity(
            account=self.account, id=transport.user.id, name=transport.user.name, commands=frozenset(self._commands)
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
        with first_error():
            async with asyncio.TaskGroup() as background:
                background.create_task(self._set_menu(transport), name="set the slash commands")
                await DiscordListener(transport, me, inlet, background, own_threads=self._own_threads).listen()

    async def _set_menu(self, transport: DiscordTransport) -> None:
        assert transport.application_id is not None
        try:
            if not self._menu_is_set:
                await transport.http.bulk_upsert_global_commands(transport.application_id, self._menu)
                self._menu_is_set = True
        except _FAILURES as error:
            log.warning("slash commands not set", account=self.account, problem=describe_failure(error))

    # Sending.

    def _build_post(self, client: DiscordTransport, message: OutboundMessage, pages: tuple[Page, ...]) -> OutgoingPost:
        in_guild = _find_guild(client, str(parse_address(message.address))) is not None
        return build_discord_post(message, pages, in_guild=in_guild)

    def _max_file_bytes(self, client: DiscordTransport, post: OutgoingPost) -> int:
        guild = _find_guild(client, post.chat)  # boosted servers accept larger files
        return guild.filesize_limit if guild is not None else discord.utils.DEFAULT_FILE_SIZE_LIMIT_BYTES

    async def _send(self, client: DiscordTransport, post: OutgoingPost, content: bytes) -> str:
        if post.edits:
            path = "/channels/{channel_id}/messages/{message_id}"
            edit = Route("PATCH", path, channel_id=post.chat, message_id=post.edits)
            await client.http.request(edit, json=build_payload(post))
            return post.edits
        route = Route("POST", "/channels/{channel_id}/messages", channel_id=post.chat)
        form = build_form(post, content)
        if form is None:
            sent = await client.http.request(route, json=build_payload(post))
        else:
            sent = await client.http.request(route, form=form, timeout=_UPLOAD_TIMEOUT)
        with check_response():
            return str(int(sent["id"]))


async def _fetch_since(transport: DiscordTransport, chat: int, after: int) -> list[Any]:
    """Return messages after a known one, and the latest if they may not be all; `after` 0 means none is known."""
    page: list[Any] = []
    if after:
        page += await transport.http.logs_from(chat, PAGE, after=after)
    if not after or len(page) == PAGE:  # the message may be further down
        page += await transport.http.logs_from(chat, PAGE)
    return page


def _find_guild(transport: DiscordTransport, chat: str) -> discord.Guild | None:
    channel = transport.get_channel(int(chat))
    return channel.guild if isinstance(channel, discord.abc.GuildChannel | discord.Thread) else None


def _find_predecessor(message: OutboundMessage) -> int:
    """Return the newest message that it must come after; 0 where none is known."""
    ids = (*message.answers, message.address.reply_to, message.after)
    return max((int(one) for one in ids if one.isascii() and one.isdecimal()), default=0)
