"""The kinds of values that settings have, and what is said about a wrong one."""

import re
from collections.abc import Callable
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field

from hermes_config.secrets import ACCOUNT_NAME

LONGEST_IDLE_MINUTES = 525_600
SHORTEST_KEPT_DAYS = 3

HOW_TO_FIND_AN_ID = (
    "write the id that never changes, such as telegram:123456789 "
    "(Telegram: ask @userinfobot; Discord: Developer Mode, then Copy User ID; Slack: profile, Copy member ID)"
)
USER_ID = re.compile(r"(?:[a-z][a-z0-9_]*(?:@[a-z0-9_]+)?:)?(?:[0-9]{1,32}|[UW](?=[A-Z]*[0-9])[A-Z0-9]{2,32})")
CHAT_ID = re.compile(r"(?:[a-z][a-z0-9_]*(?:@[a-z0-9_]+)?:)(?:-?[0-9]{1,32}|[CGD](?=[A-Z]*[0-9])[A-Z0-9]{2,32})")
TOOLSET = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]*")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")
RESET_EXCEPTION = re.compile(
    r"(?P<target>(?P<platform>[a-z][a-z0-9_]*)(?::(?P<kind>dm|group|channel|thread))?)"
    r"=(?P<mode>idle|daily|both|none)(?::(?P<numbers>[0-9]{1,6}(?::[0-9]{1,2})?))?"
)

PRICE = re.compile(
    r"(?P<model>[^=,\s]{1,200})=(?P<input>[0-9]{1,6}(?:\.[0-9]{1,6})?):(?P<cached>[0-9]{1,6}(?:\.[0-9]{1,6})?)"
    r":(?P<output>[0-9]{1,6}(?:\.[0-9]{1,6})?)"
)
OWN_BUDGET = re.compile(r"(?P<person>[^=]+)=(?P<tokens>[0-9]{1,15})(?::(?P<usd>[0-9]{1,9}(?:\.[0-9]{1,6})?))?")
LOCAL_OWNER = "owner"  # whoever sits at the terminal or the page, which know no ids


def _listed(value: object) -> object:
    """Comma-separated text, a list, and bare numbers in it all mean the same to people."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    if isinstance(value, list | tuple):
        return tuple(str(item) if isinstance(item, int) and not isinstance(item, bool) else item for item in value)
    return value


def _user_id(entry: str) -> str:
    if entry == "*":
        raise ValueError("'*' is no id; to let everybody in, set access.allow_all_users to true")
    if not USER_ID.fullmatch(entry):
        raise ValueError(f"{entry[:60]!r} looks like a user name, which can change hands; {HOW_TO_FIND_AN_ID}")
    return entry


def _of(platform: str) -> Callable[[tuple[str, ...]], tuple[str, ...]]:
    def check(entries: tuple[str, ...]) -> tuple[str, ...]:
        for entry in entries:
            before, _, id_ = entry.rpartition(":")
            if before.partition("@")[0] not in ("", platform):
                raise ValueError(
                    f"{entry!r} is an id of another platform; this list is for {platform}, so write {platform}:{id_} "
                    f"if you mean that, or put {entry} into access.allowed_users"
                )
        return entries

    return check


def _chat_id(entry: str) -> str:
    if not CHAT_ID.fullmatch(entry):
        raise ValueError(f"{entry[:60]!r} is no chat id; write the platform before it, such as telegram:-1001234567890")
    return entry


def _account_name(entry: str) -> str:
    if not ACCOUNT_NAME.fullmatch(entry):
        raise ValueError(f"{entry[:60]!r} is no account name; use small letters and digits, such as work")
    return entry


def _toolset(entry: str) -> str:
    if not TOOLSET.fullmatch(entry):
        raise ValueError(f"{entry[:60]!r} is no toolset name; names look like todo or clock")
    return entry


def _variable(entry: str) -> str:
    if not VARIABLE.fullmatch(entry):
        raise ValueError(f"{entry[:60]!r} is no name of a variable; names look like GITHUB_TOKEN")
    return entry


def _reset_exception(entry: str) -> str:
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
            f"{entry[:60]!r} is no exception; write platform=mode or platform:kind=mode, such as telegram:group=daily, "
            "web=none, slack:dm=idle:120 (minutes), discord=daily:6 (the hour) or telegram:dm=both:120:6"
        )
    return entry


def _price(entry: str) -> str:
    if not PRICE.fullmatch(entry):
        raise ValueError(
            f"{entry[:60]!r} is no price; write model=input:cached:output in US dollars for a million tokens, "
            "such as gpt-5=1.25:0.125:10 or llama*=0:0:0"
        )
    return entry


def _own_budget(entry: str) -> str:
    found = OWN_BUDGET.fullmatch(entry)
    if not found:
        raise ValueError(
            f"{entry[:60]!r} is no budget; write person=tokens or person=tokens:dollars, 0 meaning no limit, "
            "such as telegram:123456789=500000 or telegram:123456789=0:2.50"
        )
    if found["person"] != LOCAL_OWNER:
        _user_id(found["person"])
    return entry


def _no_target_twice(entries: tuple[str, ...]) -> tuple[str, ...]:
    targets = [entry.partition("=")[0] for entry in entries]
    for target in targets:
        if targets.count(target) > 1:
            raise ValueError(f"has {target} twice; keep one of the two")
    return entries


def _address(value: str) -> str:
    try:
        parts = urlsplit(value)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if value and (not usable or re.search(r"\s", value)):
        raise ValueError("must be an address starting with http:// or https://, such as https://example.org/v1")
    if "@" in urlsplit(value).netloc:
        raise ValueError("must not hold a user or password; a key belongs in .env")
    return value


def _timezone(value: str) -> str:
    if value:
        from zoneinfo import ZoneInfo

        try:
            ZoneInfo(value)
        except (ValueError, OSError, LookupError) as error:
            raise ValueError("must be a time zone name such as Europe/Berlin or UTC, or empty") from error
    return value


def _one_line(value: str) -> str:
    if not value.isprintable():
        raise ValueError("must be a single line of ordinary characters")
    return value


def _for_ever_or_long(days: int) -> int:
    if 0 < days < SHORTEST_KEPT_DAYS:
        raise ValueError(
            f"must be 0 (for ever) or {SHORTEST_KEPT_DAYS} and more: until then a platform may offer a message again"
        )
    return days


def _host(value: str) -> str:
    if not re.fullmatch(r"[0-9A-Za-z.:-]{1,255}", value):
        raise ValueError("must be an address to listen on, such as 127.0.0.1")
    return value


def _proxy_host(entry: str) -> str:
    if not re.fullmatch(r"[0-9A-Za-z.-]{1,255}(:[0-9]{1,5})?", entry):
        raise ValueError(f"{entry[:60]!r} is no host name; write it as browsers send it, such as hermes.example.org")
    return entry


def _folder(entry: str) -> str:
    if not entry.isprintable() or len(entry) > 1000 or not entry.startswith(("/", "~/")) or not entry.strip("/"):
        raise ValueError(f"{entry[:60]!r} is no folder; write its full path, such as /srv/pictures or ~/pictures")
    return entry


def _patterns(value: object) -> object:
    """A command may hold commas: one that stands alone is one."""
    return (value,) if isinstance(value, str) and value.strip() else _listed(value)


def _pattern(entry: str) -> str:
    if not entry.strip() or len(entry) > 1000:
        raise ValueError("must hold commands of 1 to 1,000 characters, such as git push origin *")
    if not entry.strip("*? "):
        raise ValueError(f"{entry!r} would allow every command; set approvals.mode to off if you mean that")
    return entry


Line = Annotated[str, AfterValidator(_one_line)]
CommandPatterns = Annotated[tuple[Annotated[str, AfterValidator(_pattern)], ...], BeforeValidator(_patterns)]
UserIds = Annotated[tuple[Annotated[str, AfterValidator(_user_id)], ...], BeforeValidator(_listed)]
TelegramUserIds = Annotated[UserIds, AfterValidator(_of("telegram"))]
DiscordUserIds = Annotated[UserIds, AfterValidator(_of("discord"))]
SlackUserIds = Annotated[UserIds, AfterValidator(_of("slack"))]
ChatIds = Annotated[tuple[Annotated[str, AfterValidator(_chat_id)], ...], BeforeValidator(_listed)]
AccountNames = Annotated[tuple[Annotated[str, AfterValidator(_account_name)], ...], BeforeValidator(_listed)]
Toolsets = Annotated[tuple[Annotated[str, AfterValidator(_toolset)], ...], BeforeValidator(_listed)]
VariableNames = Annotated[tuple[Annotated[str, AfterValidator(_variable)], ...], BeforeValidator(_listed)]
Models = Annotated[tuple[Annotated[str, AfterValidator(_one_line)], ...], BeforeValidator(_listed)]
ResetExceptions = Annotated[
    tuple[Annotated[str, AfterValidator(_reset_exception)], ...],
    BeforeValidator(_listed),
    AfterValidator(_no_target_twice),
]
Prices = Annotated[
    tuple[Annotated[str, AfterValidator(_price)], ...], BeforeValidator(_listed), AfterValidator(_no_target_twice)
]
OwnBudgets = Annotated[
    tuple[Annotated[str, AfterValidator(_own_budget)], ...], BeforeValidator(_listed), AfterValidator(_no_target_twice)
]
Tokens = Annotated[int, Field(ge=0, le=10**15)]
Dollars = Annotated[float, Field(allow_inf_nan=False, ge=0, le=10**9)]
Number = Annotated[float, Field(allow_inf_nan=False)]
Days = Annotated[int, Field(ge=0, le=36_500)]
LongDays = Annotated[Days, AfterValidator(_for_ever_or_long)]
ServerAddress = Annotated[str, AfterValidator(_address)]
TimezoneName = Annotated[str, AfterValidator(_timezone)]
Host = Annotated[str, AfterValidator(_host)]
ProxyHosts = Annotated[tuple[Annotated[str, AfterValidator(_proxy_host)], ...], BeforeValidator(_listed)]
Folders = Annotated[tuple[Annotated[str, AfterValidator(_folder)], ...], BeforeValidator(_listed)]
