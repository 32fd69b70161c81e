"""Telegram: long polls in, messages out."""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import replace

import structlog
from telegram import BotCommand
from telegram.constants import ChatAction, ReactionEmoji
from telegram.error import BadRequest, ChatMigrated, InvalidToken, TelegramError

from gateway.errors import (
    DeliveryRejected,
    GatewayError,
    GatewayStopping,
    MediaUnavailable,
    PlatformAuthFailed,
    PlatformUnavailable,
    StoreUnavailable,
)
from gateway.messages import Address, Cursor, Media, OutboundMessage, Receipt
from gateway.platforms.base import DraftStyle, Features, Inlet, KnownMessages, Mark
from gateway.platforms.outgoing import Load, PageCache, Uploads
from gateway.platforms.rate_limit import RateLimits
from gateway.platforms.telegram.errors import (
    TelegramRejection,
    check_response,
    classify_rejection,
    translate_fetch_error,
    translate_listening_errors,
    translate_send_error,
)
from gateway.platforms.telegram.formatting import (
    Page,
    TelegramAttachment,
    TelegramPost,
    build_post,
    paginate,
    parse_address,
)
from gateway.platforms.telegram.listener import TelegramListener
from gateway.platforms.telegram.parsing import MAX_FILE_BYTES, TelegramIdentity
from gateway.platforms.telegram.sending import MESSAGE_STYLE, PREVIEW_STYLE, DraftFinder, send_post, show_preview
from gateway.platforms.telegram.transport import (
    ListeningBot,
    TelegramNotFound,
    TelegramNotSent,
    TelegramTooFast,
    TelegramTransport,
)
from gateway.platforms.transport import LiveConnection, describe_size_limit, token_variable

log = structlog.get_logger()

_TOKEN = re.compile(r"[0-9]+:[A-Za-z0-9_-]+")
_USERNAME_CHANNEL = "username"
_COMMAND_NAME = re.compile(r"[a-z0-9_]{1,32}")
_MAX_COMMANDS = 100
_MAX_DESCRIPTION_CHARS = 256
_TYPING_TIMEOUT_SECONDS = 3.0
_MOVED_SECONDS = 1.0
_REACTIONS: dict[Mark, str | None] = {"seen": ReactionEmoji.EYES, "failed": ReactionEmoji.CRYING_FACE, "": None}


class TelegramPlatform:
    features = Features(
        resend="never",
        quiet_seconds=60,
        sends_files=True,
    )

    def __init__(
        self,
        token: str,
        *,
        account: str = "telegram",
        api_url: str = "https://api.telegram.org",
        poll_seconds: int = 25,
        rate_limits: RateLimits,
        commands: Sequence[tuple[str, str]] = (),
        load: Load | None = None,
    ) -> None:
        """`commands` are names and descriptions, for the menu and to recognise ours in a group; `load` returns the
        bytes of a file to send."""
        self.account = account
        self.rate_limits = rate_limits
        self._token = token
        self._variable = token_variable(account, "TELEGRAM_BOT_TOKEN")
        self._api_url = api_url
        self._poll_seconds = poll_seconds
        self._commands = dict(commands)
        self._inlet: Inlet | None = None
        self._connection = LiveConnection[TelegramTransport]("Telegram")
        self._me: TelegramIdentity | None = None
        self._uploads = Uploads(load)
        self._draft_finder = DraftFinder(rate_limits)
        self._pages = PageCache[Page](paginate)

    async def run(self, inlet: Inlet) -> None:
        if not self._token:
            raise PlatformAuthFailed(f"{self._variable} is not set; run `hermes config set {self._variable}`")
        if not _TOKEN.fullmatch(self._token):
            raise PlatformAuthFailed(
                f"{self._variable} is not a bot token. It looks like 123456789:AbC-dEf; get it from @BotFather"
            )
        transport = TelegramTransport(self._token, self._api_url)
        async with transport.hold() as bot:
            self._inlet = inlet
            self._connection.open(transport)
            try:
                with translate_listening_errors(self._variable):
                    try:
                        await self._listen(bot, inlet)
                    except InvalidToken as error:
                        raise await self._recheck_token(bot, error) from error
            except StoreUnavailable as error:
                raise PlatformUnavailable(str(error)) from error
            except GatewayStopping:
                await asyncio.Event().wait()  # Telegram keeps what it offered; we are about to be cancelled
            finally:
                self._connection.close()

    async def send(self, message: OutboundMessage) -> Receipt:
        post = build_post(message, self._pages.get_pages(message, needs_words=bool(message.edits)))
        media = post.page.media if isinstance(post.page, TelegramAttachment) else None
        async with self._uploads.load(media) as content, self._connection.transport.hold() as bot:
            if isinstance(post.page, TelegramAttachment):
                post = replace(post, page=post.page.fit(content))
            message_id = await self._send_post(bot, post, content or b"")
        return Receipt(message_id=str(message_id), more=post.more)

    async def fetch(self, media: Media, max_bytes: int) -> bytes:
        if media.size_bytes > min(max_bytes, MAX_FILE_BYTES):
            raise MediaUnavailable(
                describe_size_limit(min(max_bytes, MAX_FILE_BYTES))
                + (", the most that Telegram gives to bots" if max_bytes >= MAX_FILE_BYTES else "")
            )
        transport = await self._connection.wait_for_transport()
        async with transport.hold() as bot:
            try:
                with check_response():
                    file = await bot.get_file(media.reference)
                    address, size_bytes = str(file.file_path or ""), int(file.file_size or 0)
                if not address.startswith(("https://", "http://")):
                    raise MediaUnavailable("the Bot API server does not offer the file for download")
                if size_bytes > max_bytes:
                    raise MediaUnavailable(describe_size_limit(max_bytes))
                return await transport.download(address, max_bytes)
            except TelegramError as error:
                raise translate_fetch_error(error) from error

    async def find_sent(self, message: OutboundMessage) -> Receipt | None:
        return None  # Telegram cannot be asked

    async def show_typing(self, address: Address) -> None:
        if self.rate_limits.wait_seconds(address.chat) > 0:
            return  # the rest of the rate limit is kept for answers
        chat, thread = parse_address(address)
        async with self._connection.transport.hold() as bot:
            try:
                await bot.send_chat_action(
                    chat,
                    ChatAction.TYPING,
                    message_thread_id=thread,
                    connect_timeout=_TYPING_TIMEOUT_SECONDS,
                    read_timeout=_TYPING_TIMEOUT_SECONDS,
                )
            except TelegramError as error:
                raise self._translate_error(error, chat, repeatable=True) from error

    # Drafts and reactions.

    def draft_style(self, address: Address) -> DraftStyle | None:
        return MESSAGE_STYLE if address.chat.startswith("-") else PREVIEW_STYLE

    async def show_draft(self, draft: OutboundMessage) -> Receipt:
        chat, _ = parse_address(draft.address)
        async with self._connection.transport.hold() as bot:
            if chat < 0:
                post = build_post(draft, paginate(draft.text, needs_words=True))
                return Receipt(message_id=str(await self._send_post(bot, post, is_draft=True)))
            try:
                await show_preview(bot, draft)
            except TelegramError as error:
                raise self._translate_error(error, chat, repeatable=True) from error
        return Receipt(message_id="")

    async def find_draft(self, draft: OutboundMessage, known: KnownMessages) -> Receipt | None:
        chat, _ = parse_address(draft.address)
        async with self._connection.transport.hold() as bot:
            try:
                found = await self._draft_finder.find(bot, draft, known)
            except TelegramError as error:
                raise await self._translate_repeatable(error, chat) from error
        return Receipt(message_id=str(found)) if found is not None else None

    async def delete(self, address: Address, message_id: str) -> None:
        chat, _ = parse_address(address)
        async with self._connection.transport.hold() as bot:
            try:
                await bot.delete_message(chat, int(message_id))
            except TelegramError as error:
                if classify_rejection(error) is not TelegramRejection.NOTHING_TO_DELETE:
                    raise await self._translate_repeatable(error, chat) from error

    async def react(self, address: Address, mark: Mark) -> None:
        is_too_much = mark == "seen" and self.rate_limits.wait_seconds(address.chat) > 0
        if is_too_much or not address.reply_to.isdecimal():
            return
        chat, _ = parse_address(address)
        async with self._connection.transport.hold() as bot:
            try:
                await bot.set_message_reaction(chat, int(address.reply_to), _REACTIONS[mark])
            except TelegramError as error:
                raise await self._translate_repeatable(error, chat) from error

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
        await self._remove_webhook(bot)
        ending: GatewayError | TelegramError | None = None
        async with asyncio.TaskGroup() as background:
            menu = background.create_task(self._set_menu(bot), name="set the command menu")
            listener = TelegramListener(
                bot=bot,
                me=me,
                inlet=inlet,
                commands=self._commands.keys(),
                poll_seconds=self._poll_seconds,
                background=background,
            )
            try:
                await listener.listen()
            except (GatewayError, TelegramError) as error:
                ending = error  # raised below: the task group would wrap it
            menu.cancel()
            listener.cancel_answers()
        assert ending is not None
        raise ending

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

    async def _remove_webhook(self, bot: ListeningBot) -> None:
        with check_response():
            webhook = await bot.get_webhook_info()
        if webhook.url:
            await bot.delete_webhook(drop_pending_updates=False)
            log.warning("webhook removed: it received the messages instead of us", account=self.account)

    async def _set_menu(self, bot: ListeningBot) -> None:
        menu = [
            BotCommand(name, description[:_MAX_DESCRIPTION_CHARS])
            for name, description in self._commands.items()
            if _COMMAND_NAME.fullmatch(name) and description
        ][:_MAX_COMMANDS]
        try:
            with check_response():
                shown = list(await bot.get_my_commands())
            if shown != menu:
                await bot.set_my_commands(menu)
        except TelegramError as error:
            log.warning("command menu not set", account=self.account, problem=error.message)

    # Sending.

    async def _send_post(
        self, bot: ListeningBot, post: TelegramPost, content: bytes = b"", *, is_draft: bool = False
    ) -> int:
        """Send a post, dropping what Telegram refuses. A lost draft is not sent again, and never becomes a file."""
        while True:
            try:
                with check_response():
                    return await send_post(bot, post, content)
            except ChatMigrated as error:
                moved = await self._move_chat(str(post.chat), str(error.new_chat_id))
                raise DeliveryRejected(str(moved)) if is_draft else moved from error
            except TelegramError as error:
                problem = classify_rejection(error) if isinstance(error, BadRequest) else None
                if problem is TelegramRejection.UNCHANGED and post.edits is not None:
                    return post.edits
                amend = post.amend(problem) if problem is not None else None
                if amend is None or (
                    is_draft and problem in (TelegramRejection.NOTHING_TO_EDIT, TelegramRejection.TOO_LONG)
                ):
                    raise self._translate_error(error, post.chat, repeatable=post.edits is not None) from error
                log.info("sent differently", account=self.account, chat=post.chat, problem=error.message)
                post = amend

    async def _translate_repeatable(self, error: TelegramError, chat: int) -> GatewayError:
        """Translate an error of a call that does no harm when repeated."""
        if isinstance(error, ChatMigrated):
            return await self._move_chat(str(chat), str(error.new_chat_id))
        return self._translate_error(error, chat, repeatable=True)

    def _translate_error(self, error: TelegramError, chat: int, *, repeatable: bool) -> GatewayError:
        if isinstance(error, TelegramTooFast):
            self.rate_limits.pause(str(chat), error.seconds)
        return translate_send_error(error, repeatable=repeatable)

    async def _move_chat(self, old: str, new: str) -> PlatformUnavailable:
        if self._inlet is not None:
            try:
                await self._inlet.chat_moved(old, new)
            except StoreUnavailable as error:
                return PlatformUnavailable(str(error))
        return PlatformUnavailable("the group has a new id", retry_after=_MOVED_SECONDS)
