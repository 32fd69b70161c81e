"""Building blocks of the settings: sections, secrets, and the kinds of values with their error messages."""

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

LONGEST_IDLE_MINUTES = 525_600
SHORTEST_KEPT_DAYS = 3
LOCAL_OWNER = "owner"  # whoever uses the terminal or the web page, which have no user ids

ACCOUNT_NAME = re.compile(r"[a-z][a-z0-9_]{0,30}")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")
TOOLSET = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]*")
RESET_EXCEPTION = re.compile(
    r"(?P<target>(?P<platform>[a-z][a-z0-9_]*)(?::(?P<kind>dm|group|channel|thread))?)"
    r"=(?P<mode>idle|daily|both|none)(?::(?P<numbers>[0-9]{1,6}(?::[0-9]{1,2})?))?"
)
PRICE = re.compile(
    r"(?P<model>[^=,\s]{1,200})=(?P<input>[0-9]{1,6}(?:\.[0-9]{1,6})?):(?P<cached>[0-9]{1,6}(?:\.[0-9]{1,6})?)"
    r":(?P<output>[0-9]{1,6}(?:\.[0-9]{1,6})?)"
)
OWN_BUDGET = re.compile(r"(?P<person>[^=]+)=(?P<tokens>[0-9]{1,15})(?::(?P<usd>[0-9]{1,9}(?:\.[0-9]{1,6})?))?")


class Section(BaseModel):
    """A section of the settings. Immutable; an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, validate_default=True)


def setting(default: Any, description: str, *, env: str = "", example: str = "", **bounds: Any) -> Any:
    """Declare a key of a section. `env` is a variable that sets it as well, `example` a value to suggest to users."""
    return Field(
        default,
        description=description,
        examples=[example] if example else None,
        json_schema_extra={"env": env} if env else None,
        **bounds,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """A secret of the settings: `hermes config check`, the doctor and the docs read it.

    `env` and `field` are filled in from the field's name by `hermes_config.secrets`, `enables` and `per_account` of a
    bot's token by `hermes_config.platforms`.
    """

    purpose: str
    where_to_get: str
    enables: tuple[str, ...] = ()
    env: str = ""
    field: str = ""
    masked: bool = True
    per_account: bool = False  # each further bot has its own, in a variable with the account's name appended
    form: re.Pattern[str] | None = None
    looks_like: str = ""

    def env_of(self, account: str) -> str:
        return f"{self.env}_{account.upper()}"

    def describe_mistake(self, value: str) -> str:
        """Say what a value of the wrong form should look like, without quoting it; empty if the form is right."""
        if self.form is None or self.form.fullmatch(value):
            return ""
        return f"{self.env} does not look like {self.looks_like}. Get it: {self.where_to_get}."


def secret(described: Secret) -> Any:
    """Declare a secret in a model of secrets."""
    return Field(default=None, json_schema_extra={"secret": described})  # type: ignore[dict-item]


def _split_list(value: object) -> object:
    """Accept comma-separated text, a list, and bare numbers in a list."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    if isinstance(value, list | tuple):
        return tuple(str(item) if isinstance(item, int) and not isinstance(item, bool) else item for item in value)
    return value


def _split_commands(value: object) -> object:
    """Take text as one command: it may contain commas."""
    return (value,) if isinstance(value, str) and value.strip() else _split_list(value)


def require(is_right: Callable[[Any], object], problem: str) -> AfterValidator:
    """Require that a value, or an entry of a list, is right; `{!r}` in the problem stands for it."""

    def check(value: Any) -> Any:
        if not is_right(value):
            raise ValueError(problem.format(value[:60] if isinstance(value, str) else value))
        return value

    return AfterValidator(check)


def _matches(pattern: str | re.Pattern[str], expected: str) -> AfterValidator:
    return require(re.compile(pattern).fullmatch, f"{{!r}} is {expected}")


def _reject_duplicate_targets(entries: tuple[str, ...]) -> tuple[str, ...]:
    targets = [entry.partition("=")[0] for entry in entries]
    for target in targets:
        if targets.count(target) > 1:
            raise ValueError(f"has {target} twice; keep one of them")
    return entries


def _check_address(value: str) -> str:
    try:
        parts = urlsplit(value)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if value and (not usable or re.search(r"\s", value)):
        raise ValueError("must be an address starting with http:// or https://, such as https://example.org/v1")
    if "@" in urlsplit(value).netloc:
        raise ValueError("must not contain a user name or password; put the key into .env")
    return value


def _check_timezone(value: str) -> str:
    if value:
        from zoneinfo import ZoneInfo

        try:
            ZoneInfo(value)
        except (ValueError, OSError, LookupError) as error:
            raise ValueError("must be a time zone name such as Europe/Berlin or UTC, or empty") from error
    return value


def _check_command(entry: str) -> str:
    if not entry.strip() or len(entry) > 1000:
        raise ValueError("must contain commands of 1 to 1,000 characters, such as git push origin *")
    if not entry.strip("*? "):
        raise ValueError(f"{entry!r} would allow every command; set approvals.mode to off if you mean that")
    return entry


def _check_network_address(entry: str) -> str:
    try:
        if "/" in entry or entry.count(":") > 1:
            ipaddress.ip_network(re.sub(r"^\[([^]]+)\](:[0-9]{1,5})?$", r"\1", entry), strict=False)
        elif not re.fullmatch(r"[0-9A-Za-z.-]{1,255}(:[0-9]{1,5})?", entry):
            raise ValueError(entry)
    except ValueError as error:
        raise ValueError(
            f"{entry[:60]!r} is not an address; write 192.168.1.7:8123, 10.0.0.0/8 or nas.local"
        ) from error
    return entry


def _rename_backend(value: object) -> object:
    return "sandbox" if value == "bubblewrap" else value


def _name_network(value: object) -> object:
    """Accept the yes and no of earlier versions, and YAML's on and off."""
    said = str(value).lower() if isinstance(value, str | bool) else ""
    return {"true": "on", "false": "off"}.get(said, value)


SplitList = BeforeValidator(_split_list)
TerminalBackend = Annotated[
    Literal["auto", "sandbox", "local", "docker", "ssh", "singularity", "modal", "daytona"],
    BeforeValidator(_rename_backend),
]
MembersBackend = Annotated[
    Literal["sandbox", "docker", "singularity", "modal", "daytona"], BeforeValidator(_rename_backend)
]
SandboxNetwork = Annotated[Literal["on", "off", "ask"], BeforeValidator(_name_network)]
UniqueTargets = AfterValidator(_reject_duplicate_targets)
Line = Annotated[str, require(str.isprintable, "must be a single line without control characters")]
ServerAddress = Annotated[str, AfterValidator(_check_address)]
TimezoneName = Annotated[str, AfterValidator(_check_timezone)]
Host = Annotated[
    str,
    require(re.compile(r"[0-9A-Za-z.:-]{1,255}").fullmatch, "must be an address to listen on, such as 127.0.0.1"),
]
Number = Annotated[float, Field(allow_inf_nan=False)]
Tokens = Annotated[int, Field(ge=0, le=10**15)]
Dollars = Annotated[float, Field(allow_inf_nan=False, ge=0, le=10**9)]
Days = Annotated[int, Field(ge=0, le=36_500)]
LongDays = Annotated[
    Days,
    require(
        lambda days: not 0 < days < SHORTEST_KEPT_DAYS,
        f"must be 0 (forever) or at least {SHORTEST_KEPT_DAYS}: until then a platform may deliver a message again",
    ),
]
Models = Annotated[tuple[Line, ...], SplitList]
Folder = Annotated[
    str,
    require(
        lambda name: name.isprintable() and len(name) <= 1000 and name.startswith(("/", "~/")) and name.strip("/"),
        "{!r} is not a folder; write its full path, such as /srv/pictures or ~/pictures",
    ),
]
Folders = Annotated[tuple[Folder, ...], SplitList]
Volume = Annotated[
    str, _matches(r"[^,:\s][^,:]{0,999}:/[^,:]{0,999}(:[a-zA-Z,]+)?", "not a mount; write it as /srv/data:/data:ro")
]
Volumes = Annotated[tuple[Volume, ...], SplitList]
Words = Annotated[tuple[Line, ...], SplitList]
CommandPatterns = Annotated[
    tuple[Annotated[str, AfterValidator(_check_command)], ...], BeforeValidator(_split_commands)
]
AccountName = Annotated[
    str, _matches(ACCOUNT_NAME, "not an account name; use lowercase letters and digits, such as work")
]
AccountNames = Annotated[tuple[AccountName, ...], SplitList]
Toolset = Annotated[str, _matches(TOOLSET, "not a toolset name; names look like todo or clock")]
Toolsets = Annotated[tuple[Toolset, ...], SplitList]
HookName = Annotated[str, _matches(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", "not the name of a hook's folder")]
HookNames = Annotated[tuple[HookName, ...], SplitList]
SkillName = Annotated[
    str, _matches(r"[a-z0-9]+(-[a-z0-9]+)*", "not the name of a skill; names look like backup-photos")
]
SkillNames = Annotated[tuple[SkillName, ...], SplitList]
VariableName = Annotated[str, _matches(VARIABLE, "not a variable name; names look like GITHUB_TOKEN")]
VariableNames = Annotated[tuple[VariableName, ...], SplitList]
ProxyHost = Annotated[
    str,
    _matches(
        r"[0-9A-Za-z.-]{1,255}(:[0-9]{1,5})?",
        "not a host name; write it as browsers send it, such as hermes.example.org",
    ),
]
ProxyHosts = Annotated[tuple[ProxyHost, ...], SplitList]
NetworkAddresses = Annotated[tuple[Annotated[str, AfterValidator(_check_network_address)], ...], SplitList]
Price = Annotated[
    str,
    _matches(
        PRICE,
        "not a price; write model=input:cached:output in US dollars per million tokens, "
        "such as gpt-5=1.25:0.125:10 or llama*=0:0:0",
    ),
]
Prices = Annotated[tuple[Price, ...], SplitList, UniqueTargets]
