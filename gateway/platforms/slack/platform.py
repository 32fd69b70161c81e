"""Slack: envelopes in, messages out."""

import asyncio
import math
import re
import time
from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import replace

import structlog

from gateway.errors import (
    DeliveryRejected,
    GatewayError,
    MediaUnavailable,
    PlatformAuthFailed,
    PlatformUnavailable,
    StoreUnavailable,
)
from gateway.messages import Address, Media, OutboundMessage, Receipt
from gateway.platforms.base import DraftStyle, Features, Inlet, KnownMessages, Mark
from gateway.platforms.outgoing import Load, PageCache, Uploads
from gateway.platforms.rate_limit import Rate, RateLimits
from gateway.platforms.slack.backfill import DAY_SECONDS, Backfill, fetch_since, ts_seconds_ago
from gateway.platforms.slack.channels import Directory, SlackChannels
from gateway.platforms.slack.errors import (
    SlackRejection,
    classify_rejection,
    translate_fetch_error,
    translate_listening_errors,
    translate_send_error,
)
from gateway.platforms.slack.formatting import Page, SlackAttachment, SlackPost, build_post, is_copy, paginate
from gateway.platforms.slack.listener import SlackListener
from gateway.platforms.slack.parsing import BY_ID, SlackIdentity, is_our_own, is_ts, parse_media
from gateway.platforms.slack.sending import send_post
from gateway.platforms.slack.socket import Dispatch, SocketPool
from gateway.platforms.slack.web_api import SIGN_IN_PAGE, SlackProblem, SlackRefused, SlackTooFast, SlackWebApi
from gateway.platforms.transport import LiveConnection, describe_size_limit, token_variable

log = structlog.get_logger()

_BOT_TOKEN = re.compile(r"(xoxe\.)?xoxb-[A-Za-z0-9-]+")
_APP_TOKEN = re.compile(r"xapp-[A-Za-z0-9-]+")
_WANTED_SCOPES = (
    *(
        "app_mentions:read",
        "reactions:read",
        "reactions:write",
        "users:read",
        "chat:write",
        "files:read",
        "files:write",
    ),
    *(f"{kind}:{right}" for kind in ("channels", "groups", "im", "mpim") for right in ("history", "read")),
)
_COMMAND = "/hermes"  # as the manifest in docs/slack.md names it
_STATUS = "is thinking…"
# Slack accepts 50 changes a minute, in all channels together.
_DRAFTS = DraftStyle(interval_seconds=2.0, max_units=3_000, account_seconds=1.5, rings=True)
_SEEN, _FAILED = "eyes", "x"
_STATUS_SECONDS = 50.0  # Slack shows it for two minutes
_NO_STATUS_SECONDS = 600.0
_STATUSES_KEPT = 500


class SlackPlatform:
    features = Features(
        resend="lookup",
        quiet_seconds=60,
        sends_files=True,
    )

    def __init__(
        self,
        bot_token: str,
        app_token: str,
        *,
        account: str = "slack",
        api_url: str = "https://slack.com/api/",
        rate_limits: RateLimits | None = None,
        commands: Sequence[tuple[str, str]] = (),
        load: Load | None = None,
    ) -> None:
        """`commands` are names and descriptions, to recognise ours after the slash command; `load` returns the bytes
        of a file to send."""
        self.account = account
        self.rate_limits = rate_limits if rate_limits is not None else RateLimits(per_chat=Rate(count=3, seconds=3))
        self._tokens = bot_token, app_token
        self._bot_variable = token_variable(account, "SLACK_BOT_TOKEN")
        self._app_variable = token_variable(account, "SLACK_APP_TOKEN")
        self._api = SlackWebApi(bot_token, app_token, api_url)
        self._commands = frozenset(name for name, _ in commands)
        self._channels = SlackChannels()
        self._directory = Directory(self._api, account)
        self._connection = LiveConnection[SlackWebApi]("Slack")
        self._me: SlackIdentity | None = None
        self._uploads = Uploads(load)
        self._pages = PageCache[Page](paginate)
        self._statuses: OrderedDict[tuple[str, str], float] = OrderedDict()  # set no new one until then

    async def run(self, inlet: Inlet) -> None:
        self._check_tokens()
        async with self._api.hold():
            with translate_listening_errors(self._bot_variable):
                me = await self._identify()
            try:
                self._channels.load(await inlet.cursors(), history_since_ms=await inlet.history_since_ms())
            except StoreUnavailable as error:
                raise PlatformUnavailable(str(error)) from error
            self._connection.open(self._api)
            try:
                await self._listen(me, inlet)
            finally:
                self._connection.close()

    async def send(self, message: OutboundMessage) -> Receipt:
        post = build_post(message, self._paginate(message))
        media = post.page.media if isinstance(post.page, SlackAttachment) else None
        async with self._connection.transport.hold() as api, self._uploads.load(media) as content:
            if isinstance(post.page, SlackAttachment):
                post = replace(post, page=post.page.fit(content))
            ts = await self._send_post(api, post, content or b"")
        self._statuses.pop((post.channel, post.thread), None)  # Slack removes it with the next message
        self._channels.record_own_message(post.channel, ts, post.thread)
        return Receipt(message_id=ts, more=post.more)

    async def find_sent(self, message: OutboundMessage) -> Receipt | None:
        post = build_post(message, self._paginate(message))
        if post.edits:
            return None  # an edit is simply repeated
        asked = [ts for ts in (*message.answers, message.address.reply_to) if is_ts(ts)]
        after = message.after if is_ts(message.after) else ""
        oldest = max(after, min(asked) if asked else ts_seconds_ago(DAY_SECONDS))
        async with self._connection.transport.hold() as api:
            try:
                shown = await fetch_since(
                    api.call, post.channel, post.thread, oldest, include_all_metadata=True, inclusive=True
                )
            except SlackRefused as error:
                if error.error == "thread_not_found":
                    return None
                problem = translate_send_error(error, repeatable=True)
                if isinstance(problem, PlatformUnavailable):
                    raise problem from error
                raise DeliveryRejected(f"cannot find out whether it arrived: {problem}") from error
            except SlackProblem as error:
                raise self._translate_error(error, post.channel, repeatable=True) from error
        for one in shown:
            is_ours = self._me is not None and is_our_own(one, self._me) and str(one["ts"]) > after
            if is_ours and is_copy(one, post):
                return Receipt(message_id=str(one["ts"]), more=post.more)
        return None

    async def fetch(self, media: Media, max_bytes: int) -> bytes:
        if media.size_bytes > max_bytes:
            raise MediaUnavailable(describe_size_limit(max_bytes))
        connected = await self._connection.wait_for_transport()
        async with connected.hold() as api:
            try:
                if media.reference.startswith(BY_ID):
                    told = await api.call("files.info", file=media.reference.removeprefix(BY_ID))
                    media = parse_media(told["file"])
                content, mime = await api.download(media.reference, max_bytes)
            except SlackProblem as error:
                raise translate_fetch_error(error) from error
            except (KeyError, TypeError, ValueError) as error:
                raise MediaUnavailable("Slack sent no details of the file") from error
        if mime == "text/html" and media.mime != "text/html":
            raise MediaUnavailable(SIGN_IN_PAGE)
        return content

    async def show_typing(self, address: Address) -> None:
        """Set the status of an assistant's thread, the only indicator that Slack has."""
        place, now = (address.chat, address.thread), time.monotonic()
        if not is_ts(address.thread) or self._statuses.get(place, 0.0) > now:
            return
        async with self._connection.transport.hold() as api:
            wait = _STATUS_SECONDS
            try:
                await api.call(
                    "assistant.threads.setStatus", channel_id=address.chat, thread_ts=address.thread, status=_STATUS
                )
            except SlackRefused:
                wait = _NO_STATUS_SECONDS
            except SlackProblem as error:
                raise translate_send_error(error, repeatable=True) from error
        self._statuses[place] = now + wait
        while len(self._statuses) > _STATUSES_KEPT:
            self._statuses.popitem(last=False)

    # Drafts and reactions.

    def draft_style(self, address: Address) -> DraftStyle | None:
        return _DRAFTS

    async def show_draft(self, draft: OutboundMessage) -> Receipt:
        post = build_post(draft, paginate(draft.text, needs_words=True))
        async with self._connection.transport.hold() as api:
            ts = await self._send_post(api, post, b"", is_draft=True)
        # No status from now on: the answer will be an edit, which does not remove it.
        self._statuses[post.channel, post.thread] = math.inf
        self._channels.record_own_message(post.channel, ts, post.thread)
        return Receipt(message_id=ts)

    async def find_draft(self, draft: OutboundMessage, known: KnownMessages) -> Receipt | None:
        return await self.find_sent(draft)

    async def delete(self, address: Address, message_id: str) -> None:
        await self._call(address.chat, "chat.delete", ("message_not_found",), ts=message_id)
        self._statuses.pop((address.chat, address.thread), None)

    async def react(self, address: Address, mark: Mark) -> None:
        ts = address.reply_to
        if not is_ts(ts) or (mark == "seen" and self.rate_limits.wait_seconds(address.chat) > 0):
            return
        if mark != "seen":
            await self._call(address.chat, "reactions.remove", ("no_reaction",), timestamp=ts, name=_SEEN)
        if mark:
            name = _SEEN if mark == "seen" else _FAILED
            await self._call(address.chat, "reactions.add", ("already_reacted",), timestamp=ts, name=name)

    async def _call(self, channel: str, method: str, no_harm: Collection[str], **arguments: str) -> None:
        async with self._connection.transport.hold() as api:
            try:
                await api.call(method, channel=channel, **arguments)
            except SlackProblem as error:
                if not isinstance(error, SlackRefused) or error.error not in no_harm:
                    raise self._translate_error(error, channel, repeatable=True) from error

    # Listening.

    async def _listen(self, me: SlackIdentity, inlet: Inlet) -> None:
        listener = SlackListener(
            me=me,
            inlet=inlet,
            channels=self._channels,
            directory=self._directory,
            umbrella=_COMMAND,
            commands=self._commands,
            fell_behind=lambda: backfill.start(),
        )
        backfill = Backfill(self._api, self._channels, listener, self.account)
        dispatch = Dispatch(
            self._api.bot_client,
            me,
            event=listener.handle_event,
            press=listener.handle_press,
            command=listener.handle_command,
        )
        sockets = SocketPool(
            self._api,
            account=self.account,
            variable=self._app_variable,
            take=dispatch,
            alive=inlet.alive,
            on_gap=backfill.restart,
        )
        ending: Exception | None = None
        async with asyncio.TaskGroup() as background:
            reading = background.create_task(backfill.run(), name="catch up with slack")
            try:
                await sockets.run()
            except Exception as error:  # noqa: BLE001 - raised below: the task group would wrap it
                ending = error
            reading.cancel()
        assert ending is not None
        raise ending

    async def _identify(self) -> SlackIdentity:
        told, scopes = await self._api.test_auth()
        try:
            me = SlackIdentity(
                account=self.account,
                user=str(told["user_id"]),
                bot=str(told.get("bot_id") or ""),
                team=str(told["team_id"]),
            )
        except KeyError:
            raise PlatformUnavailable("Slack sent a malformed answer") from None
        if scopes and "chat:write" not in scopes:
            raise SlackRefused("missing_scope", needed="chat:write")
        if me != self._me:
            self._me = me
            log.info("signed in", account=self.account, bot=f"@{told.get('user')}", team=str(told.get("team")))
            if scopes and (missing := set(_WANTED_SCOPES) - scopes):
                log.warning(
                    "scopes are missing",
                    account=self.account,
                    scopes=sorted(missing),
                    meaning="some features do not work; add them at api.slack.com/apps and reinstall the app",
                )
        return me

    def _check_tokens(self) -> None:
        bot_token, app_token = self._tokens
        if not _BOT_TOKEN.fullmatch(bot_token):
            raise PlatformAuthFailed(
                f"{self._bot_variable} is not a bot token. It begins with xoxb-; get it at api.slack.com/apps, "
                "under OAuth & Permissions"
            )
        if not _APP_TOKEN.fullmatch(app_token):
            raise PlatformAuthFailed(
                f"{self._app_variable} is not an app token. It begins with xapp-; create it at api.slack.com/apps, "
                "under Basic Information, with the scope connections:write"
            )

    # Sending.

    def _paginate(self, message: OutboundMessage) -> tuple[Page, ...]:
        return self._pages.get_pages(message, needs_words=bool(message.edits or message.choices))

    async def _send_post(self, api: SlackWebApi, post: SlackPost, content: bytes, *, is_draft: bool = False) -> str:
        """Send a post, dropping what Slack refuses. A lost draft is not sent again."""
        while True:
            try:
                return await send_post(api, post, content)
            except SlackProblem as error:
                problem = classify_rejection(error) if isinstance(error, SlackRefused) else None
                amend = post.amend(problem) if problem is not None else None
                if amend is None or (is_draft and problem in (SlackRejection.NOTHING_TO_EDIT, SlackRejection.TOO_LONG)):
                    raise self._translate_error(error, post.channel, repeatable=bool(post.edits)) from error
                log.info("sent differently", account=self.account, chat=post.channel, problem=str(error))
                post = amend

    def _translate_error(self, error: SlackProblem, channel: str, *, repeatable: bool) -> GatewayError:
        if isinstance(error, SlackTooFast):
            self.rate_limits.pause(channel, error.seconds)
        return translate_send_error(error, repeatable=repeatable)
