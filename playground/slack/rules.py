"""What the Web API refuses, in its own words: texts, blocks, metadata."""

import itertools
import re
from collections.abc import Mapping
from typing import Any

from playground import wire
from playground.wire import Wire

MAX_TEXT_CHARS = 40_000
MAX_UPDATE_BYTES = 4_000  # the text of chat.update; bytes, not characters as the documentation says
MAX_SECTION_CHARS = 3_000
MAX_MARKDOWN_CHARS = 12_000  # of all markdown blocks of a message together
MAX_BLOCKS = 50
MAX_METADATA_CHARS = 16_000
_BLOCK_TYPES = "actions context context_actions divider file header image input markdown rich_text section table video"
BLOCK_TYPES = frozenset(_BLOCK_TYPES.split())
_BUTTON_LIMITS = {"action_id": 255, "value": 2000, "url": 3000}
_THREAD_TS = re.compile(r"[1-9]\d{9,10}\.\d{1,6}")
_ids = itertools.count(1)


class Refused(wire.Refused):
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


def explained(error: str, words: str) -> Refused:
    """With the reason for people, as some methods give it."""
    return Refused(error, errors=[words], response_metadata={"messages": [f"[ERROR] {words}"]})


def ratelimited(seconds: int) -> Refused:
    return Refused("ratelimited", status=429, headers={"Retry-After": str(seconds)})


def check_text(text: str) -> str:
    if len(text) > MAX_TEXT_CHARS:
        raise Refused("msg_too_long")
    return text


def check_updated_text(text: str) -> str:
    if len(text.encode("utf-8", "surrogatepass")) > MAX_UPDATE_BYTES:
        raise Refused("msg_too_long")
    return text


def check_thread(ts: str) -> str:
    if not _THREAD_TS.fullmatch(ts):
        raise explained("invalid_thread_ts", f"{ts} is not a valid thread_ts")
    return ts


def check_metadata(given: object) -> Wire | None:
    if given in (None, "", {}):
        return None
    if not isinstance(given, dict):
        raise Refused("invalid_metadata_format")
    if not isinstance(given.get("event_type"), str) or not given["event_type"]:
        raise Refused("invalid_metadata_schema")
    if not isinstance(given.get("event_payload"), dict):
        raise Refused("invalid_metadata_schema")
    if len(str(given)) > MAX_METADATA_CHARS:
        raise Refused("metadata_too_large")
    return {"event_type": given["event_type"], "event_payload": given["event_payload"]}


def check_blocks(given: object) -> list[Wire]:
    """The blocks as they are kept, each with an id."""
    if given in (None, ""):
        return []
    if not isinstance(given, list) or not all(isinstance(block, dict) for block in given):
        raise Refused("invalid_blocks_format")
    if len(given) > MAX_BLOCKS:
        raise _bad("no more than 50 items allowed", "")
    for place, block in enumerate(given):
        _check_block(block, f"/{place}")
    kept = [{**block, "block_id": block.get("block_id") or f"b{next(_ids)}"} for block in given]
    if len({block["block_id"] for block in kept}) < len(kept):
        raise _bad("block_id must be unique", "")
    if sum(len(block["text"]) for block in kept if block["type"] == "markdown") > MAX_MARKDOWN_CHARS:
        raise Refused("msg_blocks_too_long")
    return kept


def _bad(words: str, pointer: str) -> Refused:
    return explained("invalid_blocks", f"{words} [json-pointer:/blocks{pointer}]")


def _check_block(block: Wire, pointer: str) -> None:
    kind = block.get("type")
    if kind not in BLOCK_TYPES:
        raise _bad(f"unsupported type: {kind}", f"{pointer}/type")
    if len(str(block.get("block_id") or "")) > 255:
        raise _bad("must be less than 256 characters", f"{pointer}/block_id")
    match kind:
        case "section":
            _check_section(block, pointer)
        case "header":
            _check_text_object(block.get("text"), f"{pointer}/text", 150, plain=True)
        case "markdown":
            if not isinstance(block.get("text"), str) or not block["text"]:
                raise _bad("missing required field: text", pointer)
        case "context":
            _check_elements(block, pointer, 10)
        case "actions":
            _check_elements(block, pointer, 25)
            _check_actions(block["elements"], f"{pointer}/elements")


def _check_section(block: Wire, pointer: str) -> None:
    fields = block.get("fields")
    if fields is None and "text" not in block:
        raise _bad("missing required field: text", pointer)
    if "text" in block:
        _check_text_object(block["text"], f"{pointer}/text", MAX_SECTION_CHARS)
    if fields is not None:
        if not isinstance(fields, list) or not 0 < len(fields) <= 10:
            raise _bad("no more than 10 items allowed", f"{pointer}/fields")
        for place, one in enumerate(fields):
            _check_text_object(one, f"{pointer}/fields/{place}", 2000)
    if "accessory" in block:
        _check_actions([block["accessory"]], f"{pointer}/accessory")


def _check_text_object(given: object, pointer: str, most: int, *, plain: bool = False) -> None:
    if not isinstance(given, dict) or given.get("type") not in ("plain_text", "mrkdwn"):
        raise _bad("failed to match all allowed schemas", pointer)
    if plain and given["type"] != "plain_text":
        raise _bad("must be plain_text", f"{pointer}/type")
    text = given.get("text")
    if not isinstance(text, str) or not text:
        raise _bad("must be more than 0 characters", f"{pointer}/text")
    if len(text) > most:
        raise _bad(f"must be less than {most + 1} characters", f"{pointer}/text")


def _check_elements(block: Wire, pointer: str, most: int) -> None:
    elements = block.get("elements")
    if not isinstance(elements, list) or not elements or not all(isinstance(one, dict) for one in elements):
        raise _bad("missing required field: elements", pointer)
    if len(elements) > most:
        raise _bad(f"no more than {most} items allowed", f"{pointer}/elements")


def _check_actions(elements: list[Wire], pointer: str) -> None:
    seen = set()
    for place, element in enumerate(elements):
        if element.get("type") != "button":
            continue
        _check_text_object(element.get("text"), f"{pointer}/{place}/text", 75, plain=True)
        for name, most in _BUTTON_LIMITS.items():
            if len(str(element.get(name) or "")) > most:
                raise _bad(f"must be less than {most + 1} characters", f"{pointer}/{place}/{name}")
        if element.get("style") not in (None, "primary", "danger"):
            raise _bad("must be a valid enum value", f"{pointer}/{place}/style")
        if (action := element.setdefault("action_id", f"a{next(_ids)}")) in seen:
            raise _bad(f"action_id {action} already exists", f"{pointer}/{place}/action_id")
        seen.add(action)
