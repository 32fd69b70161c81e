"""Telegram: long polls in, messages out."""

import asyncio
import re
from dataclasses import replace

import structlog
from telegram import BotCommand
from telegram.constants import ChatAction, ReactionEmoji
from telegram.error import BadRequest, ChatMigrated, InvalidToken, TelegramError

from gateway.errors import DeliveryRejected, GatewayError, MediaUnavailable, PlatformUnavailable, StoreUnavailable
from gateway.messages import Address, Cursor, Media, OutboundMessage, Receipt
from gateway.platforms.base import DraftStyle, Features, Inlet, KnownMessages, Mark
from gateway.platforms.chat import ChatPlatform, ChatService, check_token
from gateway.platforms.outgoing import Attachment, OutgoingPost, Page, Rejection, build_post
from gateway.platforms.rate_limit import RateLimits
from gateway.platforms.spec import AccountSetup
from gateway.platforms.telegram.errors import (
    check_response,
    classify_refusal,
    classify_rejection,
    translate_fetch_error,
    translate_listening_error,
    translate_send_error,
)
from gateway.platforms.telegram.formatting import PAGES, keep_message_id, parse_address
from gateway.platforms.telegram.listener import TelegramListener
from gateway.platforms.telegram.markdown import write_out
from gateway.platforms.telegram.parsing import MAX_FILE_BYTES, TelegramIdentity
from gateway.platforms.telegram.sending import MESSAGE_STYLE, PREVIEW_STYLE, DraftFinder, send_post, show_preview
from gateway.platforms.telegram.transport import ListeningBot, TelegramNotFound, TelegramNotSent, TelegramTransport
from gateway.platforms.text import describe_size_limit
from gateway.platforms.transport import BackgroundCalls, first_error, token_variable

log = structlog.get_logger()

_USERNAME_CHANNEL = "username"
_COMMAND_NAME = re.compile(r"[a-z0-9_]{1,32}")
_MAX_COMMANDS = 100
_MAX_DESCRIPTION_CHARS = 256
_TYPING_TIMEOUT_SECONDS = 3.0
_MOVED_SECONDS = 1.0
_MAX_SENT_BYTES = 50_000_000
_MAX_PHOTO_BYTES = 10_000_000
_OPUS_HEAD_BYTES = 64
_REACTIONS: dict[Mark, str | None] = {"seen": ReactionEmoji.EYES, "failed": ReactionEmoji.CRYING_FACE, "": None}


class TelegramPlatform(ChatPlatform[ListeningBot]):
    service = ChatService(
        name="Telegram",
        pages=PAGES,
        strip=write_out,
        failures=(TelegramError,),
        classify=classify_refusal,
        translate=translate_send_error,
        translate_listening=translate_listening_error,
    )
    features = Features(resend="never", quiet_seconds=60, sends_files=True)

    def __init__(self, setup: AccountSetup, *, api_url: str, poll_seconds: int, rate_limits: RateLimits) -> None:
        super().__init__(setup, rate_limits)
        [self._token] = setup.tokens
        self._variable = token_variable(setup.account, "TELEGRAM_BOT_TOKEN")
        self._api_url = api_url
        self._poll_seconds = poll_seconds
        self._menu_is_set = False
        self._inlet: Inlet | None = None
        self._me: TelegramIdentity | None = None
        self._draft_finder = DraftFinder(rate_limits)

    async def run(self, inlet: Inlet) -> None:
        help_text = "a bot token. It looks like 123456789:AbC-dEf; get it from @BotFather"
        check_token(self._variable, self._token, r"[0-9]+:[A-Za-z0-9_-]+", help_text)
        transport = TelegramTransport(self._token, self._api_url)
        async with transport.hold() as bot, self._connected(transport):
            self._inlet = inlet
            with self._listening_errors(self._variable):
                try:
                    await self._listen(bot, inlet)
                except InvalidToken as error:
                    raise await self._recheck_token(bot, error) from error

    async def _download(self, client: ListeningBot, media: Media, max_bytes: int) -> bytes | None:
        if media.size_bytes > MAX_FILE_BYTES:
            raise MediaUnavailable(f"{describe_size_limit(MAX_FILE_BYTES)}, the most that Telegram gives to bots")
        try:
            with check_response():
                file = await client.get_file(media.reference)
                address, size_bytes = str(file.file_path or ""), int(file.file_size or 0)
            if not address.startswith(("https://", "http://")):
                raise MediaUnavailable("the Bot API server does not offer the file for download")
            return await client.download(address, max_bytes) if size_bytes <= max_bytes else None
        except TelegramError as error:
            raise translate_fetch_error(error) from error

    async def show_typing(self, address: Address) -> None:
        if self.rate_limits.wait_seconds(address.chat) > 0:
            return  # the rest of the rate limit is kept for answers
        chat, thread = parse_address(address)
        patience = _TYPING_TIMEOUT_SECONDS
        async with self._client(address.chat) as bot:
            await bot.send_chat_action(
                chat, ChatAction.TYPING, message_thread_id=thread, connect_timeout=patience, read_timeout=patience
            )

    # Drafts and reactions.

    def draft_style(self, address: Address) -> DraftStyle | None:
        return MESSAGE_STYLE if address.chat.startswith("-") else PREVIEW_STYLE

    async def show_draft(self, draft: OutboundMessage) -> Receipt:
        chat, _ = parse_address(draft.address)
        if chat < 0:
            try:
                return await super().show_draft(draft)
            except PlatformUnavailable as error:
                if isinstance(error.__cause__, ChatMigrated):  # the old chat would never take it
                    raise DeliveryRejected(str(error)) from error
                raise
        async with self._client(draft.address.chat) as bot:
            await show_preview(bot, draft)
        return Receipt(message_id="")

    async def find_draft(self, draft: OutboundMessage, known: KnownMessages) -> Receipt | None:
        async with self._client(draft.address.chat) as bot:
            found = await self._draft_finder.find(bot, draft, known)
        return Receipt(message_id=str(found)) if found is not None else None

    async def delete(self, address: Address, message_id: str) -> None:
        chat, _ = parse_address(address)
        async with self._client(address.chat) as bot:
            try:
                await bot.delete_message(chat, int(message_id))
            except TelegramError as error:
                if classify_rejection(error) is not Rejection.NOTHING_TO_DELETE:
                    raise

    async def _set_reaction(self, client: ListeningBot, address: Address, mark: Mark) -> None:
        if address.reply_to.isdecimal():
            await client.set_message_reaction(parse_address(address)[0], int(address.reply_to), _REACTIONS[mark])

    # Listening.

    async def _recheck_token(self, bot: ListeningBot, error: InvalidToken) -> TelegramError:
        """Return the error to raise: a token that was valid is tried again before it counts as invalid."""
        if self._me is None:
            return error
        passing = TelegramNotSent("Telegram did not know the bot for a moment")
        if isinstance(error, TelegramNotFound):
            return passing
        try:
            with check_response():
                await bot.get_me()
        except TelegramNotFound:
            return passing
        except TelegramError as again:
            return again
        return passing

    async def _listen(self, bot: ListeningBot, inlet: Inlet) -> None:
        me = await self._identify(bot, inlet)
        with first_error():
            async with asyncio.TaskGroup() as background:
                background.create_task(self._set_menu(bot), name="set the command menu")
                await TelegramListener(
                    bot=bot,
                    me=me,
                    inlet=inlet,
                    commands=self._commands.keys(),
                    poll_seconds=self._poll_seconds,
                    answers=BackgroundCalls(background),
                ).listen()

    async def _identify(self, bot: ListeningBot, inlet: Inlet) -> TelegramIdentity:
        with check_response():
            user = await bot.get_me()
            if not isinstance(user.id, int) or not isinstance(user.username or "", str):
                raise TypeError("no user")
        me = TelegramIdentity(account=self.account, id=user.id, username=user.username or "")
        if me != self._me:
            self._me = me
            log.info("signed in", account=self.account, bot=f"@{me.username}")
            if not user.can_read_all_group_messages:
                log.info(
                    "privacy mode is on",
                    account=self.account,
                    meaning="in groups the bot receives only commands and replies to it; turn privacy mode off with "
                    "/setprivacy at @BotFather, or make the bot an administrator of the group",
                )
        if await inlet.cursor(_USERNAME_CHANNEL) != me.username:
            await inlet.accept([], Cursor(channel=_USERNAME_CHANNEL, value=me.username))
        return me

    async def _set_menu(self, bot: ListeningBot) -> None:
        menu = [
            BotCommand(name, command.label[:_MAX_DESCRIPTION_CHARS])
            for name, command in self._commands.items()
            if _COMMAND_NAME.fullmatch(name) and command.description
        ][:_MAX_COMMANDS]
        try:
            if not self._menu_is_set:
                await bot.set_my_commands(menu)
                self._menu_is_set = True
        except TelegramError as error:
            log.warning("command menu not set", account=self.account, problem=error.message)

    # Sending.

    def _build_post(self, client: ListeningBot, message: OutboundMessage, pages: tuple[Page, ...]) -> OutgoingPost:
        chat, thread = parse_address(message.address)
        return build_post(
            message,
            pages,
            chat=str(chat),
            thread=str(thread or ""),
            quotes=keep_message_id(message.address.reply_to) if chat < 0 else "",
            edits=keep_message_id(message.edits),
        )

    def _max_file_bytes(self, client: ListeningBot, post: OutgoingPost) -> int:
        return _MAX_SENT_BYTES

    def _fit(self, page: Attachment, content: bytes) -> Attachment:
        is_large_photo = page.style == "photo" and len(content) > _MAX_PHOTO_BYTES
        is_other_sound = page.style == "voice" and b"OpusHead" not in content[:_OPUS_HEAD_BYTES]
        return replace(page, style="document") if is_large_photo or is_other_sound else page

    async def _send(self, client: ListeningBot, post: OutgoingPost, content: bytes) -> str:
        try:
            with check_response():
                return await send_post(client, post, content)
        except BadRequest as error:
            if post.edits and classify_rejection(error) is Rejection.UNCHANGED:
                return post.edits
            raise

    async def _explain(self, error: Exception, chat: str, *, repeatable: bool) -> GatewayError:
        if not isinstance(error, ChatMigrated):
            return await super()._explain(error, chat, repeatable=repeatable)
        if self._inlet is not None:
            try:
                await self._inlet.chat_moved(chat, str(error.new_chat_id))
            except StoreUnavailable as problem:
                return PlatformUnavailable(str(problem))
        return PlatformUnavailable("the group has a new id", retry_after=_MOVED_SECONDS)
