"""An answer that can be seen growing: one draft a turn, changed now and then, gone when the answer is there.

Everything here may be dropped: a draft gives way to whatever else is to be said in its chat. Only that none is left
behind is kept in the store.
"""

import asyncio
import contextlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

import structlog

from gateway.clock import now_ms
from gateway.errors import DeliveryInDoubt, DeliveryRejected, GatewayError, PlatformUnavailable
from gateway.media.outgoing import without_paths
from gateway.messages import Address, OutboundMessage, Text
from gateway.outbound.progress import Unfolding, draft_markdown
from gateway.platforms.base import DraftStyle, KnownMessages, ShowsDrafts
from gateway.store import drafts
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.store.drafts import Draft

log = structlog.get_logger()

_KEPT_FOR_ANSWERS = 1  # of what may be said in a chat at once
_CALL_SECONDS = 10.0
_REFRESH_SECONDS = 20.0  # for what fades after thirty
_TIDY_AGAIN_SECONDS, _LONGEST_TIDY_SECONDS = 0.25, 60.0
_MESSAGES_DELETABLE_MS = 47 * 3_600_000  # Telegram's limit, the shortest


@dataclass(slots=True, kw_only=True)
class Growing:
    """One turn's draft, as far as it is shown."""

    turn_id: str
    address: Address
    style: DraftStyle
    unfolding: Unfolding
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    is_begun: bool = False
    is_settled: asyncio.Event = field(default_factory=asyncio.Event)  # no call is under way, and none will be
    is_in_doubt: bool = False  # the last change may still come about


@dataclass(slots=True, kw_only=True)
class Drafts:
    db: Database
    platforms: Mapping[str, ShowsDrafts]  # by account
    shown_on: Collection[str]  # accounts; on the others only what is left from before is taken away
    began_ms: int = field(default_factory=now_ms)
    _stirred: asyncio.Event = field(default_factory=asyncio.Event)
    _growing: dict[str, str] = field(default_factory=dict)  # by turn, whose draft may be being sent: its account

    def style(self, address: Address) -> DraftStyle | None:
        platform = self.platforms.get(address.account) if address.account in self.shown_on else None
        return platform.draft_style(address) if platform is not None else None

    async def grow(self, growing: Growing) -> None:
        """Shows the draft until the turn has ended."""
        if growing.ended.is_set():
            return
        growing.is_begun = True
        self._growing[growing.turn_id] = growing.address.account
        try:
            draft = await self._begin(growing)
            await self._keep_shown(growing, draft)
        except GatewayError as error:
            log.info("draft given up", account=growing.address.account, problem=str(error))
        except Exception:  # contained: beside it are everybody's drafts and typing
            log.exception("draft failed", account=growing.address.account)
        finally:
            del self._growing[growing.turn_id]
            growing.is_settled.set()
            self.tidy_soon()

    def tidy_soon(self) -> None:
        self._stirred.set()

    async def tidy(self) -> None:
        """Takes away what turns that are over have left, those of an earlier process too; until cancelled."""
        await self.db.write_when_possible(self._look_back)
        wait = _TIDY_AGAIN_SECONDS
        while True:
            self._stirred.clear()
            some_left = await self._take_away_those_left()
            try:
                async with asyncio.timeout(wait if some_left else None):
                    await self._stirred.wait()
                wait = _TIDY_AGAIN_SECONDS
            except TimeoutError:
                wait = min(2 * wait, _LONGEST_TIDY_SECONDS)

    def _look_back(self, tx: Transaction) -> None:
        drafts.drop_old(tx, now_ms() - _MESSAGES_DELETABLE_MS)
        drafts.settle(tx, self.began_ms)

    # Showing.

    async def _begin(self, growing: Growing) -> Draft:
        draft = drafts.new(growing.turn_id, growing.address)
        if growing.style.fades:
            return draft
        left = await self.db.read(lambda tx: drafts.of(tx, growing.turn_id))
        return await self._found(left) if left is not None else draft

    async def _keep_shown(self, growing: Growing, draft: Draft) -> None:
        shown_version, shown_at = -1, 0.0
        clock = asyncio.get_running_loop().time
        while not growing.ended.is_set():
            wait = self._interval(growing)
            is_fading = growing.style.fades and clock() - shown_at > _REFRESH_SECONDS
            is_due = growing.unfolding.version != shown_version or is_fading
            if is_due and not growing.unfolding.is_waiting and self._has_room(growing.address):
                version = growing.unfolding.version
                try:
                    draft = await self._show(growing, draft)
                    shown_version, shown_at = version, clock()
                except PlatformUnavailable as error:
                    log.debug("draft not shown", account=growing.address.account, problem=str(error))
                    wait = max(2 * wait, error.retry_after or 0.0)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await growing.ended.wait()

    def _interval(self, growing: Growing) -> float:
        style, account = growing.style, growing.address.account
        beside = sum(one == account for one in self._growing.values())
        return max(style.interval_seconds, beside * style.account_seconds)

    def _has_room(self, address: Address) -> bool:
        return self.platforms[address.account].pace.room(address.chat) > _KEPT_FOR_ANSWERS

    async def _show(self, growing: Growing, draft: Draft) -> Draft:
        platform, unfolding = self.platforms[growing.address.account], growing.unfolding
        is_kept = not growing.style.fades
        if is_kept and not draft.message_id:
            await self.db.write_when_possible(lambda tx: drafts.begin(tx, draft))
        text = without_paths(unfolding.text)
        message = _message(draft, draft_markdown(unfolding.head, text, growing.style.max_units))
        platform.pace.spend(growing.address.chat)
        growing.is_in_doubt = True
        try:
            async with asyncio.timeout(_CALL_SECONDS):
                receipt = await platform.show_draft(message)
        except TimeoutError:
            if draft.message_id or growing.style.fades:
                raise PlatformUnavailable("no answer in time") from None
            raise DeliveryInDoubt("no answer in time") from None
        except (DeliveryRejected, PlatformUnavailable) as error:
            # Refused, or told to wait: it did not come about, nor will it.
            growing.is_in_doubt = isinstance(error, PlatformUnavailable) and error.retry_after is None
            if is_kept and not draft.message_id:  # nothing was sent, so nothing is left
                await self.db.write_when_possible(lambda tx: drafts.forget(tx, draft.turn_id))
            raise
        growing.is_in_doubt = False
        if not is_kept or receipt.message_id == draft.message_id:
            return draft
        return await self._remember(draft, receipt.message_id)

    async def _remember(self, draft: Draft, message_id: str) -> Draft:
        if not await self.db.write_when_possible(lambda tx: drafts.shown(tx, draft.turn_id, message_id)):
            # Its chat has moved, or whoever asked was erased: nobody would know of it any more.
            await self.platforms[draft.address.account].take_away(draft.address, message_id)
            raise DeliveryRejected("it is not wanted any more")
        return replace(draft, message_id=message_id)

    # Taking away.

    async def _found(self, draft: Draft) -> Draft:
        """With its id, if it was sent and we died before we knew."""
        if draft.message_id:
            return draft
        known = await self.db.read(lambda tx: self._known(tx, draft))
        try:
            async with asyncio.timeout(_CALL_SECONDS):
                receipt = await self.platforms[draft.address.account].find_draft(_message(draft, "…"), known)
        except TimeoutError:
            raise PlatformUnavailable("no answer in time") from None
        return await self._remember(draft, receipt.message_id) if receipt is not None else draft

    def _known(self, tx: Transaction, draft: Draft) -> KnownMessages:
        said = drafts.said_since(tx, draft, draft.settled_ms or draft.begun_ms + int(_CALL_SECONDS * 1000))
        return KnownMessages(ids=frozenset(drafts.others_in(tx, draft) | (said or set())), is_all=said is not None)

    async def _take_away_those_left(self) -> bool:
        """Whether there are any whose turn does not show them: they may be left behind next."""
        try:
            for draft in await self.db.read(lambda tx: drafts.left_behind(tx, list(self.platforms))):
                if draft.turn_id not in self._growing:
                    await self._take_away_contained(draft)
            growing = tuple(self._growing)
            return await self.db.read(lambda tx: drafts.are_there(tx, list(self.platforms), except_for=growing))
        except GatewayError as error:  # of the store's, which may do better the next time
            log.warning("drafts not looked for", problem=str(error))
            return True

    async def _take_away_contained(self, draft: Draft) -> None:
        try:
            await self._take_away(draft)
        except (GatewayError, TimeoutError) as error:
            log.debug("draft not taken away yet", account=draft.address.account, problem=str(error))
        except Exception:  # contained: one that an adapter chokes on must not keep the others
            log.exception("draft not taken away", account=draft.address.account)

    async def _take_away(self, seen: Draft) -> None:
        # Its turn may have learnt the id, and have ended, since it was seen: to look for it by other means could fail.
        draft = await self.db.read(lambda tx: drafts.of(tx, seen.turn_id))
        if draft is None:
            return
        if draft.begun_ms < now_ms() - _MESSAGES_DELETABLE_MS:
            log.warning("draft stays", account=draft.address.account, problem="it is too old to be deleted")
        elif (found := await self._found(draft)).message_id:
            try:
                async with asyncio.timeout(_CALL_SECONDS):
                    await self.platforms[draft.address.account].take_away(draft.address, found.message_id)
            except DeliveryRejected as error:
                log.warning("draft stays", account=draft.address.account, problem=str(error))
        await self.db.write_when_possible(lambda tx: drafts.forget(tx, seen.turn_id))


def _message(draft: Draft, text: str) -> OutboundMessage:
    return OutboundMessage(
        key=draft.key, address=draft.address, parts=(Text(text=text),), notify=False, edits=draft.message_id
    )
