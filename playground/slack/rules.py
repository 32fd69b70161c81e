"""Refusals of the Web API in its own words: texts, blocks, metadata, scopes."""

import itertools
import re
from collections.abc import Mapping
from typing import Any

from playground.wire import ApiRefusal, Wire

MAX_TEXT_CHARS = 40_000
MAX_UPDATE_BYTES = 4_000  # the text of chat.update; bytes, not characters as the documentation says
MAX_SECTION_CHARS = 3_000
MAX_MARKDOWN_CHARS = 12_000  # of all markdown blocks of a message together
MAX_BLOCKS = 50
MAX_METADATA_CHARS = 16_000
_BUTTON_LIMITS = {"action_id": 255, "value": 2000}
_THREAD_TS = re.compile(r"[1-9]\d{9,10}\.\d{1,6}")
_ids = itertools.count(1)

_READ = ("channels:read", "groups:read", "mpim:read", "im:read")
_HISTORY = ("channels:history", "groups:history", "mpim:history", "im:history")
_NEEDED: Mapping[str, tuple[str, ...]] = {  # one of those listed is enough
    "assistant.threads.setStatus": ("assistant:write", "chat:write"),
    "chat.delete": ("chat:write",),
    "chat.postMessage": ("chat:write",),
    "chat.update": ("chat:write",),
    "conversations.history": _HISTORY,
    "conversations.info": _READ,
    "conversations.replies": _HISTORY,
    "files.completeUploadExternal": ("files:write",),
    "files.getUploadURLExternal": ("files:write",),
    "files.info": ("files:read",),
    "reactions.add": ("reactions:write",),
    "reactions.remove": ("reactions:write",),
    "users.conversations": _READ,
    "users.info": ("users:read",),
}
_USUAL = (
    "app_mentions:read assistant:write channels:history channels:read chat:write commands files:read files:write "
    "groups:history groups:read im:history im:read im:write mpim:history mpim:read mpim:write reactions:read "
    "reactions:write team:read users:read"
)
USUAL_SCOPES = frozenset(_USUAL.split())
_PREFIXES = {"channel": "channels", "group": "groups", "mpim": "mpim", "im": "im"}


class SlackRefusal(ApiRefusal):
    """`ok: false` and the error, with HTTP 200 as Slack does; `extra` goes beside the error."""

    def __init__(
        self, error: str, *, status: int = 200, headers: Mapping[str, str] | None = None, **extra: Any
    ) -> None:
        super().__init__(error)
        self.error = error
        self.status = status
        self.headers = headers or {}
        self.extra = extra

    @property
    def wire(self) -> Wire:
        return {"ok": False, "error": self.error, **self.extra}


def _explain(error: str, words: str) -> SlackRefusal:
    """Add the reason for people, as some methods do."""
    return SlackRefusal(error, errors=[words], response_metadata={"messages": [f"[ERROR] {words}"]})


def rate_limited(seconds: int) -> SlackRefusal:
    return SlackRefusal("ratelimited", status=429, headers={"Retry-After": str(seconds)})


def check_scope(method: str, provided: frozenset[str]) -> None:
    needed = _NEEDED.get(method, ())
    if needed and not provided.intersection(needed):
        raise _missing_scope(needed, provided)


def check_kind_scope(kind: str, right: str, provided: frozenset[str]) -> None:
    """`right` is read or history, of this kind of channel."""
    if (scope := f"{_PREFIXES[kind]}:{right}") not in provided:
        raise _missing_scope((scope,), provided)


def _missing_scope(needed: tuple[str, ...], provided: frozenset[str]) -> SlackRefusal:
    return SlackRefusal("missing_scope", needed=",".join(needed), provided=",".join(sorted(provided)))


def scope_headers(method: str, provided: frozenset[str]) -> dict[str, str]:
    accepted = ",".join(_NEEDED.get(method, ()))
    return {"x-oauth-scopes": ",".join(sorted(provided)), "x-accepted-oauth-scopes": accepted}


def check_text(text: str) -> str:
    if len(text) > MAX_TEXT_CHARS:
        raise SlackRefusal("msg_too_long")
    return text


def check_thread(ts: str) -> str:
    if not _THREAD_TS.fullmatch(ts):
        raise _explain("invalid_thread_ts", f"{ts} is not a valid thread_ts")
    return ts


def check_metadata(given: object) -> Wire | None:
    if given in (None, "", {}):
        return None
    match given:
        case {"event_type": str(kind), "event_payload": dict(payload)} if kind:
            if len(str(given)) > MAX_METADATA_CHARS:
                raise SlackRefusal("metadata_too_large")
            return {"event_type": kind, "event_payload": payload}
    raise SlackRefusal("invalid_metadata_schema")


def check_blocks(given: object) -> list[Wire]:
    """Return the blocks as they are kept, each with an id; only the kinds that Hermes sends are played here."""
    if given in (None, ""):
        return []
    if not isinstance(given, list) or not all(isinstance(block, dict) for block in given):
        raise SlackRefusal("invalid_blocks_format")
    if len(given) > MAX_BLOCKS:
        raise _bad_block("no more than 50 items allowed", "")
    for place, block in enumerate(given):
        _check_block(block, f"/{place}")
    kept = [{**block, "block_id": block.get("block_id") or f"b{next(_ids)}"} for block in given]
    if len({block["block_id"] for block in kept}) < len(kept):
        raise _bad_block("block_id must be unique", "")
    if sum(len(block["text"]) for block in kept if block["type"] == "markdown") > MAX_MARKDOWN_CHARS:
        raise SlackRefusal("msg_blocks_too_long")
    return kept


def _bad_block(words: str, pointer: str) -> SlackRefusal:
    return _explain("invalid_blocks", f"{words} [json-pointer:/blocks{pointer}]")


def _check_block(block: Wire, pointer: str) -> None:
    match block.get("type"):
        case "section":
            _check_text_object(block.get("text"), f"{pointer}/text", MAX_SECTION_CHARS)
        case "markdown":
            if not isinstance(block.get("text"), str) or not block["text"]:
                raise _bad_block("missing required field: text", pointer)
        case "actions":
            elements = block.get("elements")
            if not isinstance(elements, list) or not 0 < len(elements) <= 25:
                raise _bad_block("no more than 25 items allowed", f"{pointer}/elements")
            _check_buttons(elements, f"{pointer}/elements")
        case kind:
            raise _bad_block(f"unsupported type: {kind}", f"{pointer}/type")


def _check_text_object(given: object, pointer: str, most: int, *, plain: bool = False) -> None:
    if not isinstance(given, dict) or given.get("type") not in (("plain_text",) if plain else ("plain_text", "mrkdwn")):
        raise _bad_block("failed to match all allowed schemas", pointer)
    text = given.get("text")
    if not isinstance(text, str) or not text:
        raise _bad_block("must be more than 0 characters", f"{pointer}/text")
    if len(text) > most:
        raise _bad_block(f"must be less than {most + 1} characters", f"{pointer}/text")


def _check_buttons(elements: list[Wire], pointer: str) -> None:
    seen = set()
    for place, element in enumerate(elements):
        if element.get("type") != "button":
            raise _bad_block("unsupported type", f"{pointer}/{place}/type")
        _check_text_object(element.get("text"), f"{pointer}/{place}/text", 75, plain=True)
        for name, most in _BUTTON_LIMITS.items():
            if len(str(element.get(name) or "")) > most:
                raise _bad_block(f"must be less than {most + 1} characters", f"{pointer}/{place}/{name}")
        if element.get("style") not in (None, "primary", "danger"):
            raise _bad_block("must be a valid enum value", f"{pointer}/{place}/style")
        if (action := element.setdefault("action_id", f"a{next(_ids)}")) in seen:
            raise _bad_block(f"action_id {action} already exists", f"{pointer}/{place}/action_id")
        seen.add(action)
