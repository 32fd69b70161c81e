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
from gateway.platforms.outgoing import Load, Pages, Uploads
from gateway.platforms.rate_limit import Pace, Rate
from gateway.platforms.slack.backfill import DAY_SECONDS, CatchingUp, seconds_ago, shown_since
from gateway.platforms.slack.channels import Directory, Rooms
from gateway.platforms.slack.errors import SlackRejection, fetching_problem, hearing_problems, refusal, sending_problem
from gateway.platforms.slack.formatting import Page, SlackAttachment, SlackPost, is_copy, letter_of, pages_of
from gateway.platforms.slack.listener import SlackListener
from gateway.platforms.slack.parsing import BY_ID, SlackIdentity, is_our_own, is_ts, media_of
from gateway.platforms.slack.sending import put
from gateway.platforms.slack.socket import Dispatch, Sockets
from gateway.platforms.slack.web_api import SIGN_IN, Api, Refused, SlackProblem, SlackTooFast
from gateway.platforms.transport import LiveConnection, token_variable, too_large

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
# Slack takes 50 changes a minute, in all channels together.
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
        pace: Pace | None = None,
        commands: Sequence[tuple[str, str]] = (),
        load: Load | None = None,
    ) -> None:
        """`commands` are names and descriptions, to know our own behind the slash command; `load` gives the bytes of
        files to be sent."""
        self.account = account
        self.pace = pace if pace is not None else Pace(per_chat=Rate(count=3, seconds=3))
        self._tokens = bot_token, app_token
        self._bot_variable = token_variable(account, "SLACK_BOT_TOKEN")
        self._app_variable = token_variable(account, "SLACK_APP_TOKEN")
        self._api = Api(bot_token, app_token, api_url)
        self._commands = frozenset(name for name, _ in commands)
        self._rooms = Rooms()
        self._directory = Directory(self._api, account)
        self._connection = LiveConnection[Api]("Slack")
        self._me: SlackIdentity | None = None
        self._uploads = Uploads(load)
        self._pages = Pages[Page](pages_of)
        self._statuses: OrderedDict[tuple[str, str], float] = OrderedDict()  # until when none is to be set

    async def run(self, inlet: Inlet) -> None:
        self._check_tokens()
        async with self._api.held():
            with hearing_problems(self._bot_variable):
                me = await self._introduced()
            try:
                self._rooms.load(await inlet.cursors(), history_since_ms=await inlet.history_since_ms())
            except StoreUnavailable as error:
                raise PlatformUnavailable(str(error)) from error
            self._connection.open(self._api)
            try:
                await self._listen(me, inlet)
            finally:
                self._connection.close()

    async def send(self, message: OutboundMessage) -> Receipt:
        letter = letter_of(message, self._pages_of(message))
        media = letter.page.media if isinstance(letter.page, SlackAttachment) else None
        async with self._connection.line.held() as api, self._uploads.loaded(media) as content:
            if isinstance(letter.page, SlackAttachment):
                letter = replace(letter, page=letter.page.fitting(content))
            ts = await self._post(api, letter, content or b"")
        self._statuses.pop((letter.channel, letter.thread), None)  # Slack takes it away when something is said
        self._rooms.spoke(letter.channel, ts, letter.thread)
        return Receipt(message_id=ts, more=letter.more)

    async def find_sent(self, message: OutboundMessage) -> Receipt | None:
        letter = letter_of(message, self._pages_of(message))
        if letter.edits:
            return None  # it does no harm twice
        asked = [ts for ts in (*message.answers, message.address.reply_to) if is_ts(ts)]
        after = message.after if is_ts(message.after) else ""
        oldest = max(after, min(asked) if asked else seconds_ago(DAY_SECONDS))
        async with self._connection.line.held() as api:
            try:
                shown = await shown_since(
                    api.call, letter.channel, letter.thread, oldest, include_all_metadata=True, inclusive=True
                )
            except Refused as error:
                if error.error == "thread_not_found":
                    return None
                problem = sending_problem(error, repeatable=True)
                if isinstance(problem, PlatformUnavailable):
                    raise problem from error
                raise DeliveryRejected(f"whether it arrived cannot be found out: {problem}") from error
            except SlackProblem as error:
                raise self._problem(error, letter.channel, repeatable=True) from error
        for one in shown:
            is_ours = self._me is not None and is_our_own(one, self._me) and str(one["ts"]) > after
            if is_ours and is_copy(one, letter):
                return Receipt(message_id=str(one["ts"]), more=letter.more)
        return None

    async def fetch(self, media: Media, max_bytes: int) -> bytes:
        if media.size_bytes > max_bytes:
            raise MediaUnavailable(too_large(max_bytes))
        connected = await self._connection.line_soon()
        async with connected.held() as api:
            try:
                if media.reference.startswith(BY_ID):
                    told = await api.call("files.info", file=media.reference.removeprefix(BY_ID))
                    media = media_of(told["file"])
                content, mime = await api.download(media.reference, max_bytes)
            except SlackProblem as error:
                raise fetching_problem(error) from error
            except (KeyError, TypeError, ValueError) as error:
                raise MediaUnavailable("Slack tells nothing of the file") from error
        if mime == "text/html" and media.mime != "text/html":
            raise MediaUnavailable(SIGN_IN)
        return content

    async def show_typing(self, address: Address) -> None:
        """As the status of an assistant's thread, which is all that Slack has; elsewhere nothing."""
        place, now = (address.chat, address.thread), time.monotonic()
        if not is_ts(address.thread) or self._statuses.get(place, 0.0) > now:
            return
        async with self._connection.line.held() as api:
            wait = _STATUS_SECONDS
            try:
                await api.call(
                    "assistant.threads.setStatus", channel_id=address.chat, thread_ts=address.thread, status=_STATUS
                )
            except Refused:
                wait = _NO_STATUS_SECONDS
            except SlackProblem as error:
                raise sending_problem(error, repeatable=True) from error
        self._statuses[place] = now + wait
        while len(self._statuses) > _STATUSES_KEPT:
            self._statuses.popitem(last=False)

    # What may be shown or not.

    def draft_style(self, address: Address) -> DraftStyle | None:
        return _DRAFTS

    async def show_draft(self, draft: OutboundMessage) -> Receipt:
        letter = letter_of(draft, pages_of(draft.text, needs_words=True))
        async with self._connection.line.held() as api:
            ts = await self._post(api, letter, b"", is_draft=True)
        # No status from here on: what is posted takes it away, but the answer will be a change, which does not.
        self._statuses[letter.channel, letter.thread] = math.inf
        self._rooms.spoke(letter.channel, ts, letter.thread)
        return Receipt(message_id=ts)

    async def find_draft(self, draft: OutboundMessage, known: KnownMessages) -> Receipt | None:
        return await self.find_sent(draft)

    async def take_away(self, address: Address, message_id: str) -> None:
        await self._do(address.chat, "chat.delete", ("message_not_found",), ts=message_id)
        self._statuses.pop((address.chat, address.thread), None)

    async def react(self, address: Address, mark: Mark) -> None:
        ts = address.reply_to
        if not is_ts(ts) or (mark == "seen" and self.pace.wait_seconds(address.chat) > 0):
            return
        if mark != "seen":
            await self._do(address.chat, "reactions.remove", ("no_reaction",), timestamp=ts, name=_SEEN)
        if mark:
            name = _SEEN if mark == "seen" else _FAILED
            await self._do(address.chat, "reactions.add", ("already_reacted",), timestamp=ts, name=name)

    async def _do(self, channel: str, method: str, no_harm: Collection[str], **arguments: str) -> None:
        async with self._connection.line.held() as api:
            try:
                await api.call(method, channel=channel, **arguments)
            except SlackProblem as error:
                if not isinstance(error, Refused) or error.error not in no_harm:
                    raise self._problem(error, channel, repeatable=True) from error

    # Listening.

    async def _listen(self, me: SlackIdentity, inlet: Inlet) -> None:
        listener = SlackListener(
            me=me,
            inlet=inlet,
            rooms=self._rooms,
            directory=self._directory,
            umbrella=_COMMAND,
            commands=self._commands,
            fell_behind=lambda: catching_up.begin(),
        )
        catching_up = CatchingUp(self._api, self._rooms, listener, self.account)
        dispatch = Dispatch(
            self._api.bot_client, me, event=listener.event, press=listener.press, command=listener.command
        )
        sockets = Sockets(
            self._api,
            account=self.account,
            variable=self._app_variable,
            take=dispatch,
            heard=inlet.heard,
            missed=catching_up.begin_anew,
        )
        ending: Exception | None = None
        async with asyncio.TaskGroup() as background:
            reading = background.create_task(catching_up.run(), name="catch up with slack")
            try:
                await sockets.run()
            except Exception as error:  # noqa: BLE001 - raised below: out of here it would come as a group
                ending = error
            reading.cancel()
        assert ending is not None
        raise ending

    async def _introduced(self) -> SlackIdentity:
        told, scopes = await self._api.who_am_i()
        try:
            me = SlackIdentity(
                account=self.account,
                user=str(told["user_id"]),
                bot=str(told.get("bot_id") or ""),
                team=str(told["team_id"]),
            )
        except KeyError:
            raise PlatformUnavailable("Slack's answer makes no sense") from None
        if scopes and "chat:write" not in scopes:
            raise Refused("missing_scope", needed="chat:write")
        if me != self._me:
            self._me = me
            log.info("signed in", account=self.account, bot=f"@{told.get('user')}", team=str(told.get("team")))
            if scopes and (missing := set(_WANTED_SCOPES) - scopes):
                log.warning(
                    "scopes are missing",
                    account=self.account,
                    scopes=sorted(missing),
                    meaning="what needs them does not work; add them at api.slack.com/apps and install the app again",
                )
        return me

    def _check_tokens(self) -> None:
        bot_token, app_token = self._tokens
        if not _BOT_TOKEN.fullmatch(bot_token):
            raise PlatformAuthFailed(
                f"{self._bot_variable} is no bot token; one begins with xoxb- and stands at api.slack.com/apps "
                "under OAuth & Permissions"
            )
        if not _APP_TOKEN.fullmatch(app_token):
            raise PlatformAuthFailed(
                f"{self._app_variable} is no app token; one begins with xapp- and is made at api.slack.com/apps "
                "under Basic Information, with the scope connections:write"
            )

    # Sending.

    def _pages_of(self, message: OutboundMessage) -> tuple[Page, ...]:
        return self._pages.of(message, needs_words=bool(message.edits or message.choices))

    async def _post(self, api: Api, letter: SlackPost, content: bytes, *, is_draft: bool = False) -> str:
        """A draft that is gone is not sent once more."""
        while True:
            try:
                return await put(api, letter, content)
            except SlackProblem as error:
                problem = refusal(error) if isinstance(error, Refused) else None
                amended = letter.amended(problem) if problem is not None else None
                if amended is None or (
                    is_draft and problem in (SlackRejection.NOTHING_TO_EDIT, SlackRejection.TOO_LONG)
                ):
                    raise self._problem(error, letter.channel, repeatable=bool(letter.edits)) from error
                log.info("sent differently", account=self.account, chat=letter.channel, problem=str(error))
                letter = amended

    def _problem(self, error: SlackProblem, channel: str, *, repeatable: bool) -> GatewayError:
        if isinstance(error, SlackTooFast):
            self.pace.rest(channel, error.seconds)
        return sending_problem(error, repeatable=repeatable)
