"""Every setting under its dotted name: what it accepts, in plain words, and which variable sets it."""

import difflib
import json
import re
import types
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, SecretStr, ValidationError
from pydantic.fields import FieldInfo

from hermes_config.secrets import SECRETS
from hermes_config.settings import Settings

EXAMPLES = {
    "access.owner_users": "telegram:123456789",
    "access.allowed_users": "telegram:123456789",
    "access.allowed_chats": "telegram:-1001234567890",
    "agent.disabled_toolsets": "clock",
    "command_allowlist": "'git push origin *'",
    "budgets.people": "telegram:123456789=500000",
    "budgets.prices": "gpt-5=1.25:0.125:10",
    "gateway.free_response_chats": "telegram:-1001234567890",
    "model.base_url": "https://openrouter.ai/api/v1",
    "platforms.discord.accounts": "work",
    "platforms.discord.allowed_users": "123456789012345678",
    "platforms.slack.accounts": "work",
    "platforms.slack.allowed_users": "U012AB3CD",
    "platforms.telegram.accounts": "work",
    "platforms.telegram.allowed_users": "123456789",
    "terminal.env_passthrough": "GITHUB_TOKEN",
    "user.name": "Ada",
    "user.timezone": "Europe/Berlin",
}

# Names that people know from other programs.
ALIASES = {
    "model.api_key": "OPENAI_API_KEY",
    "model.default": "model.name",
    "model.model": "model.name",
    "model.provider": "model.name",
    "model.url": "model.base_url",
    "platforms.discord.token": "DISCORD_BOT_TOKEN",
    "platforms.slack.token": "SLACK_BOT_TOKEN",
    "platforms.telegram.token": "TELEGRAM_BOT_TOKEN",
    "provider": "model.name",
}
NEAR = 0.7  # of 1, as difflib measures: finds slips of the fingers, and no other words


class WrongValue(Exception):
    """Carries the reasons, each a clause that follows the name of the key."""

    def __init__(self, reasons: tuple[str, ...]) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = reasons


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    dotted: str
    model: type[BaseModel]
    field: str
    info: FieldInfo

    @property
    def is_secret(self) -> bool:
        return self.dotted.startswith("secrets.")

    @property
    def is_list(self) -> bool:
        return get_origin(self.info.annotation) is tuple

    @property
    def is_text(self) -> bool:
        return self.info.annotation is str

    @property
    def default(self) -> Any:
        return self.info.default

    @property
    def example(self) -> str:
        return EXAMPLES.get(self.dotted) or shown_plainly(self.default)

    def as_typed(self, value: object) -> str:
        """As a person would type it after `hermes config set`: a list with commas, if it can be read back so."""
        text = shown_plainly(value)
        if not (self.is_list and value) or (not text.startswith("[") and self._reads_as(text) == value):
            return text
        return json.dumps(value, ensure_ascii=False)

    def check(self, value: object, *, strict: bool) -> Any:
        """The value as the settings hold it, or WrongValue; strict is for sources that know types."""
        try:
            section = self.model.model_validate({self.field: value}, strict=strict)
        except ValidationError as error:
            raise WrongValue(tuple(self._reason(problem, value) for problem in error.errors())) from None
        return getattr(section, self.field)

    def _reads_as(self, text: str) -> object:
        try:
            return self.check(text, strict=False)
        except WrongValue:
            return None

    def _reason(self, problem: Any, value: object) -> str:
        told = problem.get("ctx", {}).get("error")
        if isinstance(told, ValueError):
            # An entry of a list is named by its own message; a single value is not.
            return str(told) if self.is_list else f"is {self._shown(value)}, but {told}"
        return f"is {self._shown(value)}, but must be {expectation(self.info)}"

    def _shown(self, value: object) -> str:
        return "not shown here" if self.is_secret else shown_briefly(value)


def expectation(info: FieldInfo) -> str:
    kind = info.annotation
    if get_origin(kind) is Literal:
        return _either([str(choice) for choice in get_args(kind)])
    if get_origin(kind) is tuple:
        return "a list of names, such as [one, two]"
    if kind is bool:
        return "true or false"
    if kind is int:
        return "a whole number" + _range(info)
    if kind is float:
        return "a number" + _range(info)
    longest = _bound(info, "max_length")
    return "text in quotes, not empty" + (f", of at most {longest} characters" if longest else "")


def shown_briefly(value: object) -> str:
    """For messages; a list or section is only named, since it may be endless or hold anything."""
    if isinstance(value, dict):
        return "a section"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, bool | int | float):
        return shown_plainly(value)[:60]
    text = re.sub(r"//[^/@\s]*@", "//…@", str(value))
    return repr(text if len(text) <= 60 else text[:57] + "…")


def shown_plainly(value: object) -> str:
    """In one line. What can be typed after `hermes config set` is `Key.as_typed`."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, SecretStr):
        raise TypeError("a secret is shown through secrets.mask alone")
    return "" if value is None else str(value)


@cache
def catalogue() -> types.MappingProxyType[str, Key]:
    return types.MappingProxyType({key.dotted: key for key in _walk(Settings, "")})


@cache
def sections() -> frozenset[str]:
    return frozenset(
        dotted.rsplit(".", depth)[0] for dotted in catalogue() for depth in range(1, dotted.count(".") + 1)
    )


@cache
def variables() -> types.MappingProxyType[str, str]:
    """Variable -> dotted key, the general form first so that a well-known name is met later and wins."""
    general = {"HERMES_" + dotted.replace(".", "__").upper(): dotted for dotted in catalogue()}
    named = {
        str(key.info.json_schema_extra["env"]): dotted
        for dotted, key in catalogue().items()
        if isinstance(key.info.json_schema_extra, dict)
    }
    secret = {secret.env: f"secrets.{secret.field}" for secret in SECRETS}
    return types.MappingProxyType(general | named | secret)


@cache
def flat_names() -> types.MappingProxyType[str, str]:
    """How people know the settings of a backend, such as terminal.docker_image for terminal.docker.image."""
    parts = [dotted.split(".") for dotted in catalogue() if dotted.startswith("terminal.")]
    return types.MappingProxyType({f"terminal.{'_'.join(path)}": ".".join(("terminal", *path)) for _, *path in parts})


def find(name: str) -> Key | None:
    """By dotted key, by its flat name or by variable."""
    return catalogue().get(variables().get(name.upper(), flat_names().get(name, name)))


def unknown(name: str) -> str:
    """Say that nobody knows this name, and name the nearest one that exists or the keys of its section."""
    section, _, leaf = name.lower().rpartition(".")
    if near := _nearest(section, leaf):
        return f"There is no setting {name}; did you mean {near}?"
    if section in sections() - {"secrets"}:
        return f"There is no setting {name}. In {section} there are: {', '.join(_members(section))}."
    return f"There is no setting {name}. All settings: hermes config show."


def _nearest(section: str, leaf: str) -> str:
    """Return the name that is probably meant; empty when nothing is near enough to be worth a word."""
    if alias := ALIASES.get(f"{section}.{leaf}".lstrip(".")):
        return alias
    in_section = section if section in sections() else _closest(section, sections())
    if in_section and (close := _closest(leaf, _members(in_section))):
        return f"{in_section}.{close}"
    if not section and (close := _closest(leaf, _members(""))):
        return close
    same = [dotted for dotted in (*catalogue(), *sections()) if dotted.endswith(f".{leaf}")]
    return same[0] if len(same) == 1 else ""


def _closest(word: str, candidates: Iterable[str]) -> str:
    return next(iter(difflib.get_close_matches(word, list(candidates), n=1, cutoff=NEAR)), "")


def _members(section: str) -> list[str]:
    """Return the keys and sections directly in a section, without its name before them."""
    prefix = f"{section}." if section else ""
    names = (dotted.removeprefix(prefix) for dotted in catalogue() if dotted.startswith(prefix))
    return list(dict.fromkeys(name.partition(".")[0] for name in names))


def _walk(model: type[BaseModel], prefix: str) -> list[Key]:
    found: list[Key] = []
    for name, info in model.model_fields.items():
        dotted = f"{prefix}{name}"
        if isinstance(info.annotation, type) and issubclass(info.annotation, BaseModel):
            found += _walk(info.annotation, f"{dotted}.")
        else:
            found.append(Key(dotted=dotted, model=model, field=name, info=info))
    return found


def _range(info: FieldInfo) -> str:
    above, low, high = (_bound(info, name) for name in ("gt", "ge", "le"))
    start = f" above {above}" if above is not None else f" from {low}" if low is not None else ""
    return start + (f" {'and up ' if above is not None else ''}to {high}" if high is not None else "")


def _bound(info: FieldInfo, name: str) -> Any:
    return next((getattr(rule, name) for rule in info.metadata if getattr(rule, name, None) is not None), None)


def _either(choices: list[str]) -> str:
    return choices[0] if len(choices) == 1 else ", ".join(choices[:-1]) + f" or {choices[-1]}"
