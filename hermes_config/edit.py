"""`hermes config set` and `unset`: settings in config.yaml, secrets in .env, checked before anything is written."""

import fcntl
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from hermes_config import environment, secrets
from hermes_config.config_file import remove_from_text, set_in_text
from hermes_config.errors import ConfigError
from hermes_config.keys import Key, WrongValue, explain_unknown, find, flat_names, sections, variables
from hermes_config.places import Home
from hermes_config.sources import parse_env, read_text
from hermes_config.types import Secret

Verify = Callable[[str, Any], None]

_NEEDS_NO_QUOTES = re.compile(r"[A-Za-z0-9_.:/+=@%,-]+")


def set_value(home: Home, key: str, text: str, *, verify: Verify = lambda dotted, value: None) -> str:
    """Set a key and return what to tell the user; ConfigError means that no file has changed.

    `verify` gets the dotted key of a setting and its value, and raises ConfigError for one that only other
    parts of the program know to be wrong.
    """
    return set_values(home, {key: text}, verify=verify)[0]


def set_values(home: Home, texts: Mapping[str, str], *, verify: Verify = lambda dotted, value: None) -> list[str]:
    """Set several keys, each file in a single write; otherwise like `set_value`.

    The secrets are written first: a crash in between leaves a key that nothing uses yet, and no setting without its
    key.
    """
    chosen = [secrets.find(key) or secrets.find_of_account(key) or _find_setting(key) for key in texts]
    values = [_check_value(one, text, verify) for one, text in zip(chosen, texts.values(), strict=True)]
    with _lock(home):
        config, env = read_text(home.config_file) or "", read_text(home.env_file) or ""
        new_config, new_env = config, env
        for one, value in zip(chosen, values, strict=True):
            if isinstance(one, Secret):
                new_env = _set_variable(new_env, one.env, value)
            else:
                new_config = set_in_text(new_config, home.config_file, one.dotted, value)
        if new_env != env:
            replace_file(home.env_file, new_env)
        if new_config != config:
            replace_file(home.config_file, new_config)
        return [_describe_change(home, one, value) for one, value in zip(chosen, values, strict=True)]


def replace_config(home: Home, old: str, new: str) -> None:
    """Write a new config.yaml; raise ConfigError when it is wrong, or no longer the one that was edited."""
    check_config(home, new)
    with _lock(home):
        if (read_text(home.config_file) or "") != old:
            raise ConfigError(f"{home.config_file} was changed by another program meanwhile. Nothing was changed.")
        replace_file(home.config_file, new)


def check_config(home: Home, text: str) -> None:
    """Raise ConfigError with everything that is wrong with the text of a config.yaml; try it on a copy."""
    from hermes_config.load import load  # imports much that `hermes config set` can do without

    with tempfile.TemporaryDirectory() as folder:
        copy = Home(Path(folder))
        copy.config_file.write_text(text)
        try:
            load(copy)
        except ConfigError as error:
            raise ConfigError(str(error).replace(str(copy.root), str(home.root))) from None


def unset_value(home: Home, key: str) -> str:
    """Remove a key from config.yaml and .env and return what to tell the user; ConfigError: nothing has changed."""
    if secret := secrets.find(key) or secrets.find_of_account(key):
        name, env_names, state = secret.env, {secret.env}, "no longer set"
        dotted_names: list[str] = []
    else:
        setting = _find_setting(key)
        name = setting.dotted
        dotted_names = [name, *(flat for flat, dotted in flat_names().items() if dotted == name)]
        env_names = _find_variables(setting)
        state = f"back at its default, {setting.format(setting.default) or 'empty'}"
    with _lock(home):
        config, env = read_text(home.config_file) or "", read_text(home.env_file) or ""
        new_config = config
        for dotted in dotted_names:
            new_config = remove_from_text(new_config, home.config_file, dotted)
        kept = [line.text for line in parse_env(env) if line.name not in env_names]
        new_env = "\n".join(kept) + ("\n" if kept and env.endswith("\n") else "")
        files = {home.config_file: (config, new_config), home.env_file: (env, new_env)}
        changed = [path for path, (old, new) in files.items() if new != old]
        for path in changed:
            replace_file(path, files[path][1])
        overridden = _explain_override(env_names, home)
    if not changed:
        return f"{name} is not set in your files; nothing was changed.{overridden}"
    return f"{name} is {state} (it was in {' and '.join(map(str, changed))}).{overridden}"


def _find_setting(name: str) -> Key:
    if setting := find(name):
        return setting
    if name in sections():
        raise ConfigError(f"{name} is a section; name one of its keys, see `hermes config get {name}`.")
    raise ConfigError(explain_unknown(name))


def _find_variables(setting: Key) -> set[str]:
    return {name for name, dotted in variables().items() if dotted == setting.dotted}


def _check_value(chosen: Secret | Key, text: str, verify: Verify) -> Any:
    """Return the value to write; raise ConfigError with the reason why it is refused."""
    if isinstance(chosen, Secret):
        return _check_secret(chosen, text.strip())
    try:
        value = chosen.check(_parse(chosen, text), strict=False)
    except WrongValue as wrong:
        lines = [f"{chosen.dotted} {reason}; nothing was changed." for reason in wrong.reasons]
        if chosen.example:
            lines[-1] += f" An example: hermes config set {chosen.dotted} {chosen.example}"
        raise ConfigError("\n".join(lines)) from None
    verify(chosen.dotted, value)
    return value


def _describe_change(home: Home, chosen: Secret | Key, value: Any) -> str:
    if isinstance(chosen, Key):
        overridden = _explain_override(_find_variables(chosen), home)
        return f"{chosen.dotted} is now {chosen.format(value) or 'empty'} (in {home.config_file}).{overridden}"
    message = f"{chosen.env} is now {secrets.mask(value) if chosen.masked else value} (in {home.env_file})."
    if environment.get(chosen.env) not in ("", value):
        message += f" Note that the environment variable {chosen.env} overrides it."
    return message


def _parse(setting: Key, text: str) -> object:
    """Accept lists as YAML and text in quotes; anything else is taken as typed."""
    wanted = list if setting.is_list else str if setting.is_text else None
    if wanted is None:
        return text
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        parsed: object = YAML(typ="safe", pure=True).load(text)
    except (YAMLError, ValueError, RecursionError):
        return text
    return parsed if isinstance(parsed, wanted) else text


def _explain_override(names: set[str], home: Home) -> str:
    by = [f"the environment variable {name}" for name in sorted(names) if environment.has(name)]
    written = {line.name for line in parse_env(read_text(home.env_file) or "") if line.value}
    by += [f"{name} in {home.env_file}" for name in sorted(names & written)]
    return f" Note that {by[0]} overrides it." if by else ""


def _check_secret(secret: Secret, value: str) -> str:
    if not value:
        raise ConfigError(f"No value given for {secret.env}; to remove it: hermes config unset {secret.env}")
    if not value.isprintable():
        raise ConfigError(f"{secret.env} contains a line break or control character; copy it again, as one line.")
    if mistake := secret.describe_mistake(value):
        raise ConfigError(f"{mistake} Nothing was changed.")
    return value


def _set_variable(text: str, name: str, value: str) -> str:
    """Replace the last line that sets the variable, remove the others, and leave the rest as it is."""
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = [(line.name == name, line.text.removesuffix("\r")) for line in parse_env(text)]
    places = [number for number, (is_old, _) in enumerate(lines) if is_old]
    new = f"{name}={_quote(value)}"
    if places:
        lines[places[-1]] = (False, new)
    else:
        lines.append((False, new))
    return "".join(line + newline for is_old, line in lines if not is_old)


def _quote(value: str) -> str:
    if _NEEDS_NO_QUOTES.fullmatch(value):
        return value
    if "'" not in value:
        return f"'{value}'"
    return '"' + re.sub(r'([\\"$`])', r"\\\1", value) + '"'


@contextmanager
def _lock(home: Home) -> Iterator[None]:
    """Wait until no other process edits this home: two at once would each drop what the other wrote."""
    home.prepare()
    handle = os.open(home.root, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def replace_file(path: Path, text: str, *, mode: int = 0o600) -> None:
    """Write a file, by default for its owner alone. After a crash it is the old or the new one; a link stays one."""
    target = Path(os.path.realpath(path))
    try:
        handle, name = tempfile.mkstemp(prefix=f"{target.name}.tmp-", dir=target.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                os.fchmod(file.fileno(), mode)
                file.write(text.encode())
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, target)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(name)
            raise
        directory = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ConfigError(f"{path} could not be written: {reason}. It was not changed.") from error
