"""Slack: envelopes in, messages out."""

import asyncio
import math
import time
from collections import OrderedDict
from dataclasses import replace

import structlog

from gateway.errors import DeliveryRejected, MediaUnavailable, PlatformUnavailable
from gateway.messages import Address, Media, OutboundMessage, Receipt
from gateway.platforms.base import DraftStyle, Features, Inlet, KnownMessages, Mark
from gateway.platforms.chat import ChatPlatform, ChatService, check_token
from gateway.platforms.outgoing import Formatted, OutgoingPost, Page, build_post
from gateway.platforms.rate_limit import RateLimits
from gateway.platforms.slack.backfill import DAY_SECONDS, Backfill, fetch_since, ts_seconds_ago
from gateway.platforms.slack.channels import Directory, SlackChannels
from gateway.platforms.slack.dispatch import Dispatch
from gateway.platforms.slack.errors import (
    classify_rejection,
    translate_fetch_error,
    translate_listening_error,
    translate_send_error,
)
from gateway.platforms.slack.formatting import PAGES, is_copy
from gateway.platforms.slack.listener import SlackListener
from gateway.platforms.slack.markdown import strip_marks
from gateway.platforms.slack.parsing import BY_ID, SlackIdentity, is_our_own, is_ts, parse_media
from gateway.platforms.slack.sending import send_post
from gateway.platforms.slack.socket import SocketPool
from gateway.platforms.slack.web_api import SIGN_IN_PAGE, SlackProblem, SlackRefused, SlackWebApi
from gateway.platforms.spec import AccountSetup
from gateway.platforms.transport import first_error, token_variable

log = structlog.get_logger()

_WANTED_SCOPES = (
    *("app_mentions:read", "reactions:read", "reactions:write", "users:read"),
    *("chat:write", "files:read", "files:write"),
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


class SlackPlatform(ChatPlatform[SlackWebApi]):
    service = ChatService(
        name="Slack",
        pages=PAGES,
        strip=strip_marks,
        failures=(SlackProblem,),
        classify=classify_rejection,
        translate=translate_send_error,
        translate_listening=translate_listening_error,
    )
    features = Features(resend="lookup", quiet_seconds=60, sends_files=True)

    def __init__(self, setup: AccountSetup, *, api_url: str, rate_limits: RateLimits) -> None:
        super().__init__(setup, rate_limits)
        self._bot_token, self._app_token = setup.tokens
        self._bot_variable = token_variable(setup.account, "SLACK_BOT_TOKEN")
        self._app_variable = token_variable(setup.account, "SLACK_APP_TOKEN")
        self._api = SlackWebApi(self._bot_token, self._app_token, api_url)
        self._channels = SlackChannels()
        self._directory = Directory(self._api, setup.account)
        self._me: SlackIdentity | None = None
        self._statuses: OrderedDict[tuple[str, str], float] = OrderedDict()  # set no new one until then

    async def run(self, inlet: Inlet) -> None:
        bot_help = "a bot token. It begins with xoxb-; get it at api.slack.com/apps, under OAuth & Permissions"
        check_token(self._bot_variable, self._bot_token, r"(xoxe\.)?xoxb-[A-Za-z0-9-]+", bot_help)
        app_help = (
            "an app token. It begins with xapp-; create it at api.slack.com/apps, under Basic Information, with the "
            "scope connections:write"
        )
        check_token(self._app_variable, self._app_token, r"xapp-[A-Za-z0-9-]+", app_help)
        async with self._api.hold():
            with self._listening_errors(self._bot_variable):
                me = await self._identify()
            async with self._connected(self._api):
                self._channels.load(await inlet.cursors(), history_since_ms=await inlet.history_since_ms())
                await self._listen(me, inlet)

    async def send(self, message: OutboundMessage) -> Receipt:
        receipt = await super().send(message)
        place = message.address.chat, message.address.thread
        self._statuses.pop(place, None)  # Slack removes it with the next message
        self._channels.record_own_message(place[0], receipt.message_id, place[1])
        return receipt

    async def find_sent(self, message: OutboundMessage) -> Receipt | None:
        post = _build_post(message, self._get_pages(message))
        if post.edits:
            return None  # an edit is simply repeated
        asked = [ts for ts in (*message.answers, message.address.reply_to) if is_ts(ts)]
        after = message.after if is_ts(message.after) else ""
        oldest = max(after, min(asked) if asked else ts_seconds_ago(DAY_SECONDS))
        async with self._client(post.chat) as api:
            try:
                shown = await fetch_since(
                    api.call, post.chat, post.thread, oldest, include_all_metadata=True, inclusive=True
                )
            except SlackRefused as error:
                if error.error == "thread_not_found":
                    return None
                problem = translate_send_error(error, repeatable=True)
                if isinstance(problem, PlatformUnavailable):
                    raise problem from error
                raise DeliveryRejected(f"cannot find out whether it arrived: {problem}") from error
        for one in shown:
            is_ours = self._me is not None and is_our_own(one, self._me) and str(one["ts"]) > after
            if is_ours and is_copy(one, post):
                return Receipt(message_id=str(one["ts"]), more=post.more)
        return None

    async def _download(self, client: SlackWebApi, media: Media, max_bytes: int) -> bytes | None:
        try:
            if media.reference.startswith(BY_ID):
                told = await client.call("files.info", file=media.reference.removeprefix(BY_ID))
                media = parse_media(told["file"])
            content, mime = await client.download(media.reference, max_bytes)
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
        wait = _STATUS_SECONDS
        async with self._client(address.chat) as api:
            try:
                await api.call(
                    "assistant.threads.setStatus", channel_id=address.chat, thread_ts=address.thread, status=_STATUS
                )
            except SlackRefused:
                wait = _NO_STATUS_SECONDS
        self._statuses[place] = now + wait
        while len(self._statuses) > _STATUSES_KEPT:
            self._statuses.popitem(last=False)

    # Drafts and reactions.

    def draft_style(self, address: Address) -> DraftStyle | None:
        return _DRAFTS

    async def show_draft(self, draft: OutboundMessage) -> Receipt:
        receipt = await super().show_draft(draft)
        place = draft.address.chat, draft.address.thread
        # No status from now on: the answer will be an edit, which does not remove it.
        self._statuses[place] = math.inf
        self._channels.record_own_message(place[0], receipt.message_id, place[1])
        return receipt

    async def find_draft(self, draft: OutboundMessage, known: KnownMessages) -> Receipt | None:
        return await self.find_sent(draft)

    async def delete(self, address: Address, message_id: str) -> None:
        async with self._client(address.chat) as api:
            await _call(api, "chat.delete", "message_not_found", channel=address.chat, ts=message_id)
        self._statuses.pop((address.chat, address.thread), None)

    async def _set_reaction(self, client: SlackWebApi, address: Address, mark: Mark) -> None:
        if not is_ts(address.reply_to):
            return
        where = {"channel": address.chat, "timestamp": address.reply_to}
        if mark != "seen":
            await _call(client, "reactions.remove", "no_reaction", **where, name=_SEEN)
        if mark:
            name = _SEEN if mark == "seen" else _FAILED
            await _call(client, "reactions.add", "already_reacted", **where, name=name)

    # Listening.

    async def _listen(self, me: SlackIdentity, inlet: Inlet) -> None:
        listener = SlackListener(
            me=me,
            inlet=inlet,
            channels=self._channels,
            directory=self._directory,
            umbrella=_COMMAND,
            commands=self._commands.keys(),
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
        with first_error():
            async with asyncio.TaskGroup() as background:
                background.create_task(backfill.run(), name="catch up with slack")
                await sockets.run()

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

    # Sending.

    def _get_pages(self, message: OutboundMessage) -> tuple[Page, ...]:
        return PAGES.get_pages(message, needs_words=bool(message.edits or message.choices))

    def _build_post(self, client: SlackWebApi, message: OutboundMessage, pages: tuple[Page, ...]) -> OutgoingPost:
        return _build_post(message, pages)

    async def _send(self, client: SlackWebApi, post: OutgoingPost, content: bytes) -> str:
        return await send_post(client, post, content)


def _build_post(message: OutboundMessage, pages: tuple[Page, ...]) -> OutgoingPost:
    edits = message.edits if is_ts(message.edits) else ""
    post = build_post(message, pages, chat=message.address.chat, thread=message.address.thread, edits=edits)
    # A file cannot have buttons.
    last_words = max((place for place, page in enumerate(pages) if isinstance(page, Formatted)), default=-1)
    return replace(post, choices=message.choices if post.piece == last_words else ())


async def _call(api: SlackWebApi, method: str, harmless: str, **arguments: str) -> None:
    try:
        await api.call(method, **arguments)
    except SlackRefused as error:
        if error.error != harmless:
            raise
