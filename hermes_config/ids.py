"""Ids of people and chats in settings, and entries that name a platform: what they look like on each platform."""

import re
from typing import Annotated

from pydantic import AfterValidator

from hermes_config.platforms import PLATFORMS
from hermes_config.types import (
    LOCAL_OWNER,
    LONGEST_IDLE_MINUTES,
    OWN_BUDGET,
    RESET_EXCEPTION,
    TOOLSET,
    SplitList,
    UniqueTargets,
    require,
)

OTHER_PLACES = ("cli", "cron", "api")  # where the agent works besides platforms
LOCAL_PLATFORMS = tuple(name for name, config in PLATFORMS.items() if config.is_local)

_REMOTE = {name: config for name, config in PLATFORMS.items() if not config.is_local}
EXAMPLE_PLATFORM, _EXAMPLE = next(iter(_REMOTE.items()))
EXAMPLE_USER = f"{EXAMPLE_PLATFORM}:{_EXAMPLE.example_user_id}"
EXAMPLE_CHAT = f"{EXAMPLE_PLATFORM}:{_EXAMPLE.example_chat_id}"
EXAMPLE_RESETS = f"{EXAMPLE_PLATFORM}:group=daily,{EXAMPLE_PLATFORM}:dm=both:120:6,{LOCAL_PLATFORMS[-1]}=none"
EXAMPLE_TOOLSETS = f"{EXAMPLE_PLATFORM}=core+messaging"
_WAYS = "; ".join(f"{config.label}: {config.find_user_id}" for config in _REMOTE.values())
HOW_TO_FIND_AN_ID = f"write the id that never changes, such as {EXAMPLE_USER} ({_WAYS})"

EXAMPLE_WEBHOOK = f"deploys=github:{EXAMPLE_PLATFORM}"
WEBHOOK_SIGNATURES = (
    "github",
    "gitlab",
    "hmac",
    "standard",
    "bearer",
    *(name for name, config in PLATFORMS.items() if config.signs_webhooks),
)
WEBHOOK_ENTRY = re.compile(
    rf"(?P<name>[a-z][a-z0-9_]{{0,30}})=(?P<signature>{'|'.join(WEBHOOK_SIGNATURES)})(?::(?P<deliver>[^\s,=]{{1,200}}))?"
)
_PLATFORM_TOOLSETS = re.compile(
    rf"(?:hermes-)?(?:{'|'.join((*PLATFORMS, *OTHER_PLACES))})={TOOLSET.pattern}(?:\+{TOOLSET.pattern})*"
)
_PREFIX = "[a-z][a-z0-9_]*(?:@[a-z0-9_]+)?:"
_USER_ID = re.compile(rf"(?:{_PREFIX})?(?:{'|'.join(config.user_id for config in _REMOTE.values())})")
_CHAT_ID = re.compile(rf"(?:{_PREFIX})(?:{'|'.join(config.chat_id for config in _REMOTE.values())})")


def _check_user_id(entry: str) -> str:
    if entry == "*":
        raise ValueError("'*' is not an id; to let everybody in, set access.allow_all_users to true")
    if not _USER_ID.fullmatch(entry):
        raise ValueError(f"{entry[:60]!r} looks like a user name, which can change hands; {HOW_TO_FIND_AN_ID}")
    return entry


def _check_own_budget(entry: str) -> str:
    found = OWN_BUDGET.fullmatch(entry)
    if not found:
        raise ValueError(
            f"{entry[:60]!r} is not a budget; write person=tokens or person=tokens:dollars, where 0 means no limit, "
            f"such as {EXAMPLE_USER}=500000 or {EXAMPLE_USER}=0:2.50"
        )
    if found["person"] != LOCAL_OWNER:
        _check_user_id(found["person"])
    return entry


def _check_reset_exception(entry: str) -> str:
    found = RESET_EXCEPTION.fullmatch(entry)
    numbers = [int(number) for number in (found["numbers"] or "").split(":") if number] if found else []
    match found["mode"] if found else "":
        case "none":
            fits = not numbers
        case "idle":
            fits = len(numbers) < 2 and all(1 <= minutes <= LONGEST_IDLE_MINUTES for minutes in numbers)
        case "daily":
            fits = len(numbers) < 2 and all(hour <= 23 for hour in numbers)
        case "both":
            fits = not numbers or (len(numbers) == 2 and 1 <= numbers[0] <= LONGEST_IDLE_MINUTES and numbers[1] <= 23)
        case _:
            fits = False
    if not fits:
        raise ValueError(
            f"{entry[:60]!r} is not an exception; write platform=mode or platform:kind=mode, where mode is none, "
            f"idle[:minutes], daily[:hour] or both[:minutes:hour], such as {EXAMPLE_RESETS}"
        )
    return entry


PlatformToolset = Annotated[
    str,
    require(
        _PLATFORM_TOOLSETS.fullmatch,
        "{!r} does not give a platform its toolsets; write platform=toolset+toolset, such as " + EXAMPLE_TOOLSETS,
    ),
]
PlatformToolsets = Annotated[tuple[PlatformToolset, ...], SplitList, UniqueTargets]
UserIds = Annotated[tuple[Annotated[str, AfterValidator(_check_user_id)], ...], SplitList]
ChatId = Annotated[
    str,
    require(_CHAT_ID.fullmatch, f"{{!r}} is not a chat id; write the platform before it, such as {EXAMPLE_CHAT}"),
]
WebhookEntry = Annotated[
    str,
    require(
        WEBHOOK_ENTRY.fullmatch,
        "{!r} is not a webhook; write name=signature or name=signature:chat, where signature is one of "
        f"{', '.join(WEBHOOK_SIGNATURES)}, such as {EXAMPLE_WEBHOOK}",
    ),
]
WebhookEntries = Annotated[tuple[WebhookEntry, ...], SplitList, UniqueTargets]
ChatIds = Annotated[tuple[ChatId, ...], SplitList]
OwnBudgets = Annotated[tuple[Annotated[str, AfterValidator(_check_own_budget)], ...], SplitList, UniqueTargets]
ResetExceptions = Annotated[
    tuple[Annotated[str, AfterValidator(_check_reset_exception)], ...], SplitList, UniqueTargets
]
