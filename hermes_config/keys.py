"""Every setting by its dotted name: the values it accepts, in plain words, and the variables that set it."""

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

from hermes_config.platforms import PLATFORMS
from hermes_config.secrets import SECRETS, find_tokens
from hermes_config.settings import Settings

# Names used by other programs.
ALIASES = {
    "model.api_key": "OPENAI_API_KEY",
    "model.default": "model.name",
    "model.model": "model.name",
    "model.provider": "model.name",
    "model.url": "model.base_url",
    "provider": "model.name",
    **{f"platforms.{name}.token": tokens[0].env for name in PLATFORMS if (tokens := find_tokens(name))},
}
SANDBOX, OLD_SANDBOX = "terminal.sandbox", "terminal.bubblewrap"
CLOSE = 0.7  # of 1, as difflib measures: finds typing mistakes, and no other words


class WrongValue(Exception):
    """A value that a setting does not accept, with the reasons; each follows the name of the key in a sentence."""

    def __init__(self, reasons: tuple[str, ...]) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = reasons


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A setting."""

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
        return str(self.info.examples[0]) if self.info.examples else format_value(self.default)

    def format(self, value: object) -> str:
        """Format a value for `hermes config set`: a list with commas, if that reads back the same."""
        text = format_value(value)
        if not (self.is_list and value) or (not text.startswith("[") and self._reads_as(text) == value):
            return text
        return json.dumps(value, ensure_ascii=False)

    def check(self, value: object, *, strict: bool) -> Any:
        """Return the value as the settings hold it, or raise WrongValue; strict is for sources that know types."""
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
        given = "not shown here" if self.is_secret else summarize(value)
        error = problem.get("ctx", {}).get("error")
        if isinstance(error, ValueError):
            # The message about an entry of a list names the entry.
            return str(error) if self.is_list else f"is {given}, but {error}"
        return f"is {given}, but must be {describe_expected(self.info)}"


def describe_expected(info: FieldInfo) -> str:
    """Say which values a setting accepts, such as "a whole number from 1 to 1000"."""
    kind = info.annotation
    if get_origin(kind) is Literal:
        *others, last = map(str, get_args(kind))
        return f"{', '.join(others)} or {last}" if others else last
    if get_origin(kind) is tuple:
        return f"a list, such as [{info.examples[0] if info.examples else 'one, two'}]"
    if kind is bool:
        return "true or false"
    if kind is int:
        return "a whole number" + _range(info)
    if kind is float:
        return "a number" + _range(info)
    longest = _bound(info, "max_length")
    text = "text in quotes" + (", not empty" if _bound(info, "min_length") else "")
    return text + (f", of at most {longest} characters" if longest else "")


def summarize(value: object) -> str:
    """Format a value for an error message; a list or section is not quoted, since it may be long or hold secrets."""
    if isinstance(value, dict):
        return "a section"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, bool | int | float):
        return format_value(value)[:60]
    text = re.sub(r"//[^/@\s]*@", "//…@", str(value))
    return repr(text if len(text) <= 60 else text[:57] + "…")


def format_value(value: object) -> str:
    """Format a value in one line; `Key.format` gives what `hermes config set` accepts."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, SecretStr):
        raise TypeError("show secrets with secrets.mask only")
    return "" if value is None else str(value)


@cache
def catalogue() -> types.MappingProxyType[str, Key]:
    """Return all settings by dotted name."""
    return types.MappingProxyType({key.dotted: key for key in _walk(Settings, "")})


@cache
def sections() -> frozenset[str]:
    return frozenset(
        dotted.rsplit(".", depth)[0] for dotted in catalogue() for depth in range(1, dotted.count(".") + 1)
    )


@cache
def variables() -> types.MappingProxyType[str, str]:
    """Return the dotted key for each variable: HERMES_SECTION__KEY, and the well-known names."""
    older = {name: dotted for name, dotted in flat_names().items() if name.startswith(f"{OLD_SANDBOX}.")}
    named_by = {dotted: dotted for dotted in catalogue()} | older
    general = {"HERMES_" + name.replace(".", "__").upper(): dotted for name, dotted in named_by.items()}
    named = {
        str(key.info.json_schema_extra["env"]): dotted
        for dotted, key in catalogue().items()
        if isinstance(key.info.json_schema_extra, dict) and "env" in key.info.json_schema_extra
    }
    secret = {secret.env: f"secrets.{secret.field}" for secret in SECRETS}
    return types.MappingProxyType(general | named | secret)


@cache
def flat_names() -> types.MappingProxyType[str, str]:
    """Return the dotted key for each flat name, such as terminal.sandbox_network, and for each older name."""
    parts = [dotted.split(".") for dotted in catalogue() if dotted.startswith("terminal.")]
    flat = {f"terminal.{'_'.join(path)}": ".".join(("terminal", *path)) for _, *path in parts}
    nested = {SANDBOX: SANDBOX} | {dotted: dotted for dotted in flat.values() if dotted.startswith(f"{SANDBOX}.")}
    old = {name.replace(SANDBOX, OLD_SANDBOX, 1): dotted for name, dotted in (flat | nested).items() if SANDBOX in name}
    return types.MappingProxyType(flat | old)


def find(name: str) -> Key | None:
    """Find a setting by its dotted key, its flat name or its variable."""
    return catalogue().get(variables().get(name.upper(), flat_names().get(name, name)))


def explain_unknown(name: str) -> str:
    """Say that there is no such setting, and suggest the closest one or the keys of its section."""
    section, _, leaf = name.lower().rpartition(".")
    if close := _find_closest(section, leaf):
        return f"There is no setting {name}; did you mean {close}?"
    if section in sections() - {"secrets"}:
        return f"There is no setting {name}. In {section} there are: {', '.join(_members(section))}."
    return f"There is no setting {name}. All settings: hermes config show."


def _find_closest(section: str, leaf: str) -> str:
    """Return the name that is probably meant; empty when nothing is close."""
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
    return next(iter(difflib.get_close_matches(word, list(candidates), n=1, cutoff=CLOSE)), "")


def _members(section: str) -> list[str]:
    """Return the names of the keys and sections directly in a section."""
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
