"""`hermes config`: show, change and check the settings."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from hermes_config.keys import Key
    from hermes_config.load import Loaded
    from hermes_config.places import Home
    from hermes_config.types import Secret

TOOLSET_KEYS = ("agent.enabled_toolsets", "agent.disabled_toolsets")


@click.group()
def config() -> None:
    """Show, change and check the settings."""


@config.command()
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
def show(as_json: bool) -> None:
    """Print every setting, its value and where that came from."""
    from hermes_config.keys import catalogue

    with _report_errors():
        loaded = _load(_open_home())
    if as_json:
        values = {
            dotted: {
                "value": _format(key, loaded) if key.is_secret else _get_value(key, loaded),
                "source": loaded.sources.get(dotted, "default"),
            }
            for dotted, key in catalogue().items()
        }
        click.echo(json.dumps({"settings": values, "warnings": loaded.warnings}, indent=2, ensure_ascii=False))
        return
    shown = [key for key in catalogue().values() if not _is_hidden(key, loaded)]
    for section, members in groupby(shown, key=lambda key: key.dotted.split(".")[0]):
        click.echo(click.style(section, bold=True))
        for key in members:
            click.echo(f"  {key.dotted} = {_format(key, loaded)}  ({loaded.sources.get(key.dotted, 'default')})")
    _warn(loaded.warnings)


@config.command()
@click.argument("key")
def get(key: str) -> None:
    """Print one setting, or a section as YAML; of a secret only its last characters."""
    from hermes_config import environment, keys, secrets

    with _report_errors():
        token = secrets.find_of_account(key)
        found = keys.find(key)
        is_section = key in keys.sections()
        if found is None and token is None and not is_section:
            raise click.ClickException(keys.explain_unknown(key))
        loaded = _load(_open_home())
    if is_section:
        click.echo(_render_section(key, loaded), nl=False)
    elif found is not None:
        click.echo(_format(found, loaded))
    elif token is not None:
        value = environment.lookup(token.env)
        click.echo(secrets.mask(value) if value else "not set")
    _warn(loaded.warnings)


@config.command("set", context_settings={"ignore_unknown_options": True})  # a group's id begins with a dash
@click.argument("key")
@click.argument("value", required=False)
def set_(key: str, value: str | None) -> None:
    """Change one setting, or a secret by its variable's name.

    Without VALUE you are asked for a secret, so that it does not end up in the history of your shell.
    """
    from hermes_config import secrets
    from hermes_config.edit import set_value

    token = secrets.find_of_account(key)
    if value is None:
        if secrets.find(key) is None and token is None:
            raise click.UsageError(f"Give a value: hermes config set {key} VALUE")
        value = str(click.prompt(key, hide_input=True))
    with _report_errors():
        home = _open_home()
        click.echo(set_value(home, key, value, verify=lambda dotted, given: _verify(home, dotted, given)))
    if token is not None:
        _hint_at_accounts(home, token)
    _hint_at_restart(home)


@config.command()
@click.argument("key")
def unset(key: str) -> None:
    """Restore the default of a setting, or remove a secret; comments stay."""
    from hermes_config.edit import unset_value

    with _report_errors():
        home = _open_home()
        click.echo(unset_value(home, key))
    _hint_at_restart(home)


@config.command()
def path() -> None:
    """Print the path of config.yaml, whether or not it exists."""
    from hermes_config.places import Home

    with _report_errors():
        click.echo(str(Home.locate().config_file))


@config.command()
def check() -> None:
    """Check the files and the secrets; exit with 1 when something is wrong."""
    from hermes_config.accounts import account_tokens, missing_tokens
    from hermes_config.secrets import SECRETS

    with _report_errors():
        home = _open_home()
        loaded = _load(home)
    problems = [*_check_all_toolsets(home, loaded), *missing_tokens(loaded.settings)]
    mistakes = _find_token_mistakes(loaded)
    for file in (home.config_file, home.env_file):
        if not file.exists():
            click.echo(f"{file}: does not exist, which is fine")
        elif not any(str(file) in line for line in (*loaded.warnings, *problems, *mistakes)):
            click.echo(f"{file}: fine")
    _warn((*loaded.warnings, *mistakes))
    for line in problems:
        click.echo(f"Error: {line}", err=True)
    click.echo("\nSecrets:")
    for secret in SECRETS:
        value = getattr(loaded.settings.secrets, secret.field)
        if secret.unused and not value:
            continue
        state = f"set, from {loaded.sources[f'secrets.{secret.field}']}" if value else "not set"
        use = f"{secret.purpose} and enables {', '.join(secret.enables)}"
        click.echo(f"  {secret.env}: {state}; {'nothing in this version uses it' if secret.unused else use}")
        if not value:
            click.echo(f"    get it: {secret.where_to_get}")
    for variable, token in account_tokens(loaded.settings).items():
        click.echo(f"  {variable}: {'set' if token else 'not set'}; signs in an additional bot")
    if problems:
        raise SystemExit(1)


def _verify(home: Home, dotted: str, value: tuple[str, ...]) -> None:
    from hermes_config.errors import ConfigError

    if dotted in TOOLSET_KEYS and (problem := _check_toolsets(home, value)):
        raise ConfigError(f"{dotted}: {problem} Nothing was changed.")


def _check_all_toolsets(home: Home, loaded: Loaded) -> list[str]:
    agent = loaded.settings.agent
    given = dict(zip(TOOLSET_KEYS, (agent.enabled_toolsets, agent.disabled_toolsets), strict=True))
    problems = {dotted: _check_toolsets(home, names) for dotted, names in given.items()}
    return [f"{_locate(home, loaded, dotted)}: {dotted}: {problem}" for dotted, problem in problems.items() if problem]


def _check_toolsets(home: Home, names: tuple[str, ...]) -> str:
    """Say which toolset does not exist; empty when all do.

    The user's own tools are loaded, and so run, only for a name that is not built in.
    """
    from gateway import logs
    from gateway.doctor.facts import read_secrets
    from tools.loading import load_builtin, load_folder
    from tools.toolsets import ToolsetError, check_names

    registry = load_builtin()
    try:
        check_names(names, registry)
    except ToolsetError:
        # Without this, structlog would show local variables in what those tools log.
        logs.configure(level="error", style="auto", secrets=read_secrets().values())
        load_folder(home.root / "tools")
    try:
        check_names(names, registry)
    except ToolsetError as error:
        return str(error)
    return ""


def _find_token_mistakes(loaded: Loaded) -> list[str]:
    from hermes_config.accounts import account_tokens
    from hermes_config.secrets import SECRETS, find_of_account

    given = loaded.settings.secrets.by_variable()
    plain = [
        f"{loaded.sources[f'secrets.{secret.field}']}: {mistake}"
        for secret in SECRETS
        if secret.env in given and (mistake := secret.describe_mistake(given[secret.env]))
    ]
    further = {find_of_account(variable): token for variable, token in account_tokens(loaded.settings).items() if token}
    return [*plain, *(mistake for one, token in further.items() if one and (mistake := one.describe_mistake(token)))]


def _locate(home: Home, loaded: Loaded, dotted: str) -> str:
    """Return where a value came from, with the full path of a file."""
    source = loaded.sources.get(dotted, "default")
    return str(home.root / source) if source.startswith((home.config_file.name, home.env_file.name)) else source


def _hint_at_accounts(home: Home, token: Secret) -> None:
    from hermes_config.accounts import is_named
    from hermes_config.errors import ConfigError

    try:
        named = is_named(_load(home).settings, token.env)
    except ConfigError:  # about another setting; `config check` reports it
        return
    if not named:
        platform = token.enables[0]
        click.echo(f"It takes effect once platforms.{platform}.accounts names that bot.")


def _hint_at_restart(home: Home) -> None:
    from gateway.lock import read_state

    if read_state(home.lock_file) is not None:
        click.echo("A gateway is running; restart it to apply this.")


def _open_home() -> Home:
    from hermes_config.places import Home

    home = Home.locate()
    home.check_ours()
    return home


def _load(home: Home) -> Loaded:
    from hermes_config.load import load

    return load(home)


def _get_value(key: Key, loaded: Loaded) -> object:
    value: object = loaded.settings
    for name in key.dotted.split("."):
        value = getattr(value, name)
    return value


def _format(key: Key, loaded: Loaded) -> str:
    from hermes_config import secrets

    value = _get_value(key, loaded)
    secret = secrets.find(key.dotted) if key.is_secret else None
    if secret is None:
        return key.format(value)
    if value is None:
        return "not set"
    revealed = str(value.get_secret_value())  # type: ignore[attr-defined]
    return secrets.mask(revealed) if secret.masked else revealed


def _is_hidden(key: Key, loaded: Loaded) -> bool:
    from hermes_config import secrets

    secret = secrets.find(key.dotted) if key.is_secret else None
    return secret is not None and secret.unused and _get_value(key, loaded) is None


def _render_section(name: str, loaded: Loaded) -> str:
    from io import StringIO

    from ruamel.yaml import YAML

    from hermes_config.keys import catalogue

    tree: dict[str, Any] = {}
    for key in catalogue().values():
        if not key.dotted.startswith(f"{name}.") or _is_hidden(key, loaded):
            continue
        *above, leaf = key.dotted.split(".")
        section = tree
        for part in above:
            section = section.setdefault(part, {})
        value = _format(key, loaded) if key.is_secret else _get_value(key, loaded)
        section[leaf] = list(value) if isinstance(value, tuple) else value
    yaml = YAML()
    yaml.width = 10_000  # one line for each value
    text = StringIO()
    yaml.dump(tree, text)
    return text.getvalue()


def _warn(warnings: Iterable[str]) -> None:
    for warning in warnings:
        click.echo(f"Warning: {warning}", err=True)


@contextmanager
def _report_errors() -> Iterator[None]:
    from hermes_config.errors import ConfigError

    try:
        yield
    except ConfigError as error:
        raise click.ClickException(str(error)) from error
