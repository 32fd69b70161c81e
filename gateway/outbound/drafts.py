"""Drafts: one message per turn that shows the answer so far, and that the final answer edits or replaces.

Drafts are best effort: they give way to whatever else is sent in the chat. The store only makes sure that none is
left behind.
"""

import asyncio
import contextlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

import structlog

from gateway.clock import now_ms
from gateway.errors import DeliveryInDoubt, DeliveryRejected, GatewayError, PlatformUnavailable
from gateway.media.outgoing import hide_paths
from gateway.messages import Address, OutboundMessage, Text
from gateway.outbound.progress import DraftContent, draft_markdown
from gateway.platforms.base import DraftStyle, KnownMessages, ShowsDrafts
from gateway.store import drafts
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.store.drafts import Draft

log = structlog.get_logger()

_KEPT_FOR_ANSWERS = 1  # sends of a chat's rate that drafts leave free
_CALL_SECONDS = 10.0
_REFRESH_SECONDS = 20.0  # for what fades after thirty
_TIDY_AGAIN_SECONDS, _LONGEST_TIDY_SECONDS = 0.25, 60.0
_MESSAGES_DELETABLE_MS = 47 * 3_600_000  # Telegram's limit, the shortest


@dataclass(slots=True, kw_only=True)
class DraftState:
    """The draft of one running turn."""

    turn_id: str
    address: Address
    style: DraftStyle
    content: DraftContent
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    is_begun: bool = False
    is_settled: asyncio.Event = field(default_factory=asyncio.Event)  # no call is under way, and none will be
    is_in_doubt: bool = False  # the last change may still come about


@dataclass(slots=True, kw_only=True)
class Drafts:
    db: Database
    platforms: Mapping[str, ShowsDrafts]  # by account
    shown_on: Collection[str]  # accounts; on the others only drafts of earlier runs are deleted
    began_ms: int = field(default_factory=now_ms)
    _wake_tidy: asyncio.Event = field(default_factory=asyncio.Event)
    _shown_turns: dict[str, str] = field(default_factory=dict)  # account by turn, while a draft may be being sent

    def style(self, address: Address) -> DraftStyle | None:
        platform = self.platforms.get(address.account) if address.account in self.shown_on else None
        return platform.draft_style(address) if platform is not None else None

    async def show_until_end(self, state: DraftState) -> None:
        """Keep the draft up to date until the turn ends."""
        if state.ended.is_set():
            return
        state.is_begun = True
        self._shown_turns[state.turn_id] = state.address.account
        try:
            draft = drafts.new(state.turn_id, state.address)
            if not state.style.fades:
                left = await self.db.read(lambda tx: drafts.find(tx, state.turn_id))
                draft = await self._find(left) if left is not None else draft
            await self._keep_shown(state, draft)
        except GatewayError as error:
            log.info("draft given up", account=state.address.account, problem=str(error))
        except Exception:  # contained: beside it are everybody's drafts and typing
            log.exception("draft failed", account=state.address.account)
        finally:
            del self._shown_turns[state.turn_id]
            state.is_settled.set()
            self.tidy_soon()

    def tidy_soon(self) -> None:
        self._wake_tidy.set()

    async def tidy(self) -> None:
        """Delete drafts that ended turns have left, also those of an earlier process; until cancelled."""

        def prepare(tx: Transaction) -> None:
            drafts.drop_old(tx, now_ms() - _MESSAGES_DELETABLE_MS)
            drafts.settle(tx, self.began_ms)

        await self.db.write_when_possible(prepare)
        wait = _TIDY_AGAIN_SECONDS
        while True:
            self._wake_tidy.clear()
            some_left = await self._delete_left_behind()
            try:
                async with asyncio.timeout(wait if some_left else None):
                    await self._wake_tidy.wait()
                wait = _TIDY_AGAIN_SECONDS
            except TimeoutError:
                wait = min(2 * wait, _LONGEST_TIDY_SECONDS)

    async def _keep_shown(self, state: DraftState, draft: Draft) -> None:
        shown_version, shown_at = -1, 0.0
        clock = asyncio.get_running_loop().time
        style, account, chat = state.style, state.address.account, state.address.chat
        while not state.ended.is_set():
            wait = self._interval(state)
            has_room = self.platforms[account].rate_limits.remaining(chat) > _KEPT_FOR_ANSWERS
            is_fading = style.fades and clock() - shown_at > _REFRESH_SECONDS
            is_due = state.content.version != shown_version or is_fading
            if is_due and not state.content.is_waiting and has_room:
                version = state.content.version
                try:
                    draft = await self._show(state, draft)
                    shown_version, shown_at = version, clock()
                except PlatformUnavailable as error:
                    log.debug("draft not shown", account=account, problem=str(error))
                    wait = max(2 * wait, error.retry_after or 0.0)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await state.ended.wait()

    def _interval(self, state: DraftState) -> float:
        beside = sum(one == state.address.account for one in self._shown_turns.values())
        return max(state.style.interval_seconds, beside * state.style.account_seconds)

    async def _show(self, state: DraftState, draft: Draft) -> Draft:
        platform, content = self.platforms[state.address.account], state.content
        is_kept = not state.style.fades
        if is_kept and not draft.message_id:
            await self.db.write_when_possible(lambda tx: drafts.begin(tx, draft))
        text = hide_paths(content.text)
        message = _message(draft, draft_markdown(content.head, text, state.style.max_units))
        platform.rate_limits.record_send(state.address.chat)
        state.is_in_doubt = True
        try:
            async with asyncio.timeout(_CALL_SECONDS):
                receipt = await platform.show_draft(message)
        except TimeoutError:
            if draft.message_id or state.style.fades:
                raise PlatformUnavailable("no answer in time") from None
            raise DeliveryInDoubt("no answer in time") from None
        except (DeliveryRejected, PlatformUnavailable) as error:
            # Refused, or told to wait: it did not come about, nor will it.
            state.is_in_doubt = isinstance(error, PlatformUnavailable) and error.retry_after is None
            if is_kept and not draft.message_id:  # nothing was sent, so nothing is left
                await self.db.write_when_possible(lambda tx: drafts.forget(tx, draft.turn_id))
            raise
        state.is_in_doubt = False
        if not is_kept or receipt.message_id == draft.message_id:
            return draft
        return await self._remember(draft, receipt.message_id)

    async def _remember(self, draft: Draft, message_id: str) -> Draft:
        if not await self.db.write_when_possible(lambda tx: drafts.mark_shown(tx, draft.turn_id, message_id)):
            # Its chat moved, or whoever asked was erased: nobody would delete it later.
            await self.platforms[draft.address.account].delete(draft.address, message_id)
            raise DeliveryRejected("it is no longer wanted")
        return replace(draft, message_id=message_id)

    async def _find(self, draft: Draft) -> Draft:
        """Return the draft with its message id, if it was sent and we died before we knew."""
        if draft.message_id:
            return draft

        def read(tx: Transaction) -> KnownMessages:
            said = drafts.read_sent_ids(tx, draft, draft.settled_ms or draft.begun_ms + int(_CALL_SECONDS * 1000))
            ids = drafts.read_other_ids(tx, draft) | (said or set())
            return KnownMessages(ids=frozenset(ids), is_all=said is not None)

        known = await self.db.read(read)
        try:
            async with asyncio.timeout(_CALL_SECONDS):
                receipt = await self.platforms[draft.address.account].find_draft(_message(draft, "…"), known)
        except TimeoutError:
            raise PlatformUnavailable("no answer in time") from None
        return await self._remember(draft, receipt.message_id) if receipt is not None else draft

    async def _delete_left_behind(self) -> bool:
        """Return whether there are drafts whose turn does not show them: they may be left behind next."""
        try:
            for draft in await self.db.read(lambda tx: drafts.list_orphans(tx, list(self.platforms))):
                if draft.turn_id not in self._shown_turns:
                    await self._delete_contained(draft)
            shown = tuple(self._shown_turns)
            return await self.db.read(lambda tx: drafts.has_others(tx, list(self.platforms), except_for=shown))
        except GatewayError as error:  # from the store, which may be available the next time
            log.warning("drafts not looked for", problem=str(error))
            return True

    async def _delete_contained(self, draft: Draft) -> None:
        try:
            await self._delete(draft)
        except (GatewayError, TimeoutError) as error:
            log.debug("draft not deleted yet", account=draft.address.account, problem=str(error))
        except Exception:  # contained: one that an adapter chokes on must not keep the others
            log.exception("draft not deleted", account=draft.address.account)

    async def _delete(self, seen: Draft) -> None:
        # Read again: its turn may have stored the id meanwhile, and a search by other means could fail.
        draft = await self.db.read(lambda tx: drafts.find(tx, seen.turn_id))
        if draft is None:
            return
        if draft.begun_ms < now_ms() - _MESSAGES_DELETABLE_MS:
            log.warning("draft stays", account=draft.address.account, problem="it is too old to be deleted")
        elif (found := await self._find(draft)).message_id:
            try:
                async with asyncio.timeout(_CALL_SECONDS):
                    await self.platforms[draft.address.account].delete(draft.address, found.message_id)
            except DeliveryRejected as error:
                log.warning("draft stays", account=draft.address.account, problem=str(error))
        await self.db.write_when_possible(lambda tx: drafts.forget(tx, seen.turn_id))


def _message(draft: Draft, text: str) -> OutboundMessage:
    return OutboundMessage(
        key=draft.key, address=draft.address, parts=(Text(text=text),), notify=False, edits=draft.message_id
    )
