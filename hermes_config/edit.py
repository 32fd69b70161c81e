"""`hermes config set` and `unset`: settings in config.yaml, secrets in .env, checked before anything is written."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hermes_config import environment, secrets
from hermes_config.errors import ConfigError
from hermes_config.given import read_text
from hermes_config.keys import Key, WrongValue, explain_unknown, find, flat_names, sections, variables
from hermes_config.places import Home
from hermes_config.secrets import mask
from hermes_config.types import Secret
from hermes_config.variables import lines_of
from hermes_config.write import alone_in, replace_file
from hermes_config.yaml_edit import with_value, without_value

NEEDS_NO_QUOTES = re.compile(r"[A-Za-z0-9_.:/+=@%,-]+")


Verify = Callable[[str, Any], None]


def set_value(home: Home, key: str, text: str, *, verify: Verify = lambda dotted, value: None) -> str:
    """Set a key and return what to tell the person; ConfigError means that no file has changed.

    `verify` gets the dotted key of a setting and its value, and raises ConfigError for one that only other
    parts of the program know to be wrong.
    """
    secret = secrets.find(key) or secrets.find_of_account(key)
    if secret is not None:
        return _alone(home, lambda: _set_secret(home, secret, text))
    setting = _setting(key)
    return _alone(home, lambda: _set_setting(home, setting, text, verify))


def unset_value(home: Home, key: str) -> str:
    """Remove a key from config.yaml and .env and return what to tell the person; ConfigError: nothing has changed."""
    secret = secrets.find(key) or secrets.find_of_account(key)
    if secret is not None:
        return _alone(home, lambda: _unset(home, secret.env, "", {secret.env}, "no longer set"))
    setting = _setting(key)
    names = {name for name, dotted in variables().items() if dotted == setting.dotted}
    default = setting.format(setting.default) or "empty"
    now = f"back at its default, {default}"
    return _alone(home, lambda: _unset(home, setting.dotted, setting.dotted, names, now))


def _unset(home: Home, called: str, dotted: str, names: set[str], now: str) -> str:
    """Remove the setting from config.yaml, if it is one, and the variables from .env."""
    config, env = read_text(home.config_file) or "", read_text(home.env_file) or ""
    new_config = config
    if dotted:
        for written in (dotted, *(flat for flat, meant in flat_names().items() if meant == dotted)):
            new_config = without_value(new_config, home.config_file, written)
    kept = [line.text for line in lines_of(env) if line.name not in names]
    new_env = "\n".join(kept) + ("\n" if kept and env.endswith("\n") else "")
    files = {home.config_file: (config, new_config), home.env_file: (env, new_env)}
    changed = [path for path, (old, new) in files.items() if new != old]
    for path in changed:
        replace_file(path, files[path][1])
    overruled = _overruled_by(names, home)
    if not changed:
        return f"{called} is not set in your files; nothing was changed.{overruled}"
    return f"{called} is {now} (it was in {' and '.join(map(str, changed))}).{overruled}"


def _alone(home: Home, change: Callable[[], str]) -> str:
    home.prepare()
    with alone_in(home.root):
        return change()


def _setting(name: str) -> Key:
    setting = find(name)
    if setting is not None:
        return setting
    if name in sections():
        raise ConfigError(f"{name} is a section; name one of its keys, see `hermes config get {name}`.")
    raise ConfigError(explain_unknown(name))


def _set_setting(home: Home, setting: Key, text: str, verify: Verify) -> str:
    try:
        value = setting.check(_understood(setting, text), strict=False)
    except WrongValue as wrong:
        lines = [f"{setting.dotted} {reason}; nothing was changed." for reason in wrong.reasons]
        if setting.example:
            lines[-1] += f" An example: hermes config set {setting.dotted} {setting.example}"
        raise ConfigError("\n".join(lines)) from None
    verify(setting.dotted, value)
    old = read_text(home.config_file) or ""
    replace_file(home.config_file, with_value(old, home.config_file, setting.dotted, value))
    told = f"{setting.dotted} is now {setting.format(value) or 'empty'} (in {home.config_file})."
    names = {name for name, dotted in variables().items() if dotted == setting.dotted}
    return told + _overruled_by(names, home)


def _understood(setting: Key, text: str) -> object:
    """Lists may come as YAML and text may come quoted; everything else is taken as typed."""
    if not (setting.is_list or setting.is_text):
        return text
    parsed = _as_yaml(text)
    if setting.is_list and isinstance(parsed, list):
        return parsed
    return parsed if setting.is_text and isinstance(parsed, str) else text


def _as_yaml(text: str) -> Any:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        return YAML(typ="safe", pure=True).load(text)
    except (YAMLError, ValueError, RecursionError):
        return None


def _overruled_by(names: set[str], home: Home) -> str:
    by = [f"the environment variable {name}" for name in sorted(names) if environment.has(name)]
    written = {line.name for line in lines_of(read_text(home.env_file) or "") if line.value}
    by += [f"{name} in {home.env_file}" for name in sorted(names & written)]
    return f" Mind that {by[0]} overrides it." if by else ""


def _set_secret(home: Home, secret: Secret, text: str) -> str:
    value = text.strip()
    if not value:
        raise ConfigError(f"No value given for {secret.env}; to forget it: hermes config unset {secret.env}")
    if not value.isprintable():
        raise ConfigError(f"{secret.env} holds a line break or control character; copy it again, as one line.")
    if mistake := secret.describe_mistake(value):
        raise ConfigError(f"{mistake} Nothing was changed.")
    old = read_text(home.env_file) or ""
    replace_file(home.env_file, _with_line(old, secret.env, value, home.env_file))
    told = f"{secret.env} is now {mask(value) if secret.masked else value} (in {home.env_file})."
    if environment.has(secret.env):
        told += f" Mind that the environment variable {secret.env} overrides it."
    if secret.unused:
        told += " Nothing in this version uses it."
    return told


def _with_line(text: str, name: str, value: str, path: Path) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = lines_of(text)
    places = [number for number, line in enumerate(lines) if line.name == name]
    kept = [line.text.removesuffix("\r") for line in lines]
    new = f"{name}={_quoted(value)}"
    if places:
        kept[places[-1]] = new
        kept = [line for number, line in enumerate(kept) if number not in places[:-1]]
    else:
        kept.append(new)
    after = newline.join(kept) + newline
    if [line.value for line in lines_of(after) if line.name == name] != [value]:
        raise ConfigError(f"{path} could not take {name} faithfully; nothing was changed.")
    return after


def _quoted(value: str) -> str:
    if NEEDS_NO_QUOTES.fullmatch(value):
        return value
    if "'" not in value:
        return f"'{value}'"
    return '"' + re.sub(r'([\\"$`])', r"\\\1", value) + '"'
