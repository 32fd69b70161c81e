"""`hermes config`: look at the settings, change one, check them all."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from hermes_config.keys import Key
    from hermes_config.load import Loaded
    from hermes_config.places import Home
    from hermes_config.secrets import Secret


@click.group()
def config() -> None:
    """Show, change and check the settings."""


@config.command()
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
def show(as_json: bool) -> None:
    """Print every setting, its value and where that came from."""
    from hermes_config.keys import catalogue

    with _plain_errors():
        loaded = _loaded(_home())
    if as_json:
        values = {
            dotted: {
                "value": _shown(key, loaded) if key.is_secret else _held(key, loaded),
                "source": loaded.sources.get(dotted, "default"),
            }
            for dotted, key in catalogue().items()
        }
        click.echo(json.dumps({"settings": values, "warnings": loaded.warnings}, indent=2, ensure_ascii=False))
        return
    for section, members in groupby(catalogue().values(), key=lambda key: key.dotted.split(".")[0]):
        click.echo(click.style(section, bold=True))
        for key in members:
            click.echo(f"  {key.dotted} = {_shown(key, loaded)}  ({loaded.sources.get(key.dotted, 'default')})")
    _warn(loaded)


@config.command()
@click.argument("key")
def get(key: str) -> None:
    """Print one setting; a secret only by its last characters."""
    from hermes_config import environment, keys, secrets

    with _plain_errors():
        token = secrets.find_of_account(key)
        found = keys.find(key)
        if found is None and token is None:
            raise click.ClickException(keys.unknown(key))
        loaded = _loaded(_home())
    if found is not None:
        click.echo(_shown(found, loaded))
    elif token is not None:
        value = environment.lookup(token.env)
        click.echo(secrets.mask(value) if value else "not set")
    _warn(loaded)


@config.command("set", context_settings={"ignore_unknown_options": True})  # a group's id begins with a dash
@click.argument("key")
@click.argument("value", required=False)
def set_(key: str, value: str | None) -> None:
    """Change one setting, or a secret by its variable's name.

    Without VALUE a secret is asked for, so that it does not stay in the shell's history.
    """
    from hermes_config import secrets
    from hermes_config.edit import set_value

    token = secrets.find_of_account(key)
    if value is None:
        if secrets.find(key) is None and token is None:
            raise click.UsageError(f"Give a value: hermes config set {key} VALUE")
        value = str(click.prompt(key, hide_input=True))
    with _plain_errors():
        home = _home()
        click.echo(set_value(home, key, value))
    if token is not None:
        _say_what_it_waits_for(home, token)
    _say_when_it_acts(home)


@config.command()
def path() -> None:
    """Print where config.yaml is, or would be."""
    from hermes_config.places import Home

    with _plain_errors():
        click.echo(str(Home.locate().config_file))


@config.command()
def check() -> None:
    """Say what is wrong, what is fine and which secrets are set; exit 1 when something is wrong."""
    from hermes_config.accounts import account_tokens, missing_tokens
    from hermes_config.secrets import SECRETS

    with _plain_errors():
        home = _home()
        loaded = _loaded(home)
    for file in (home.config_file, home.env_file):
        if not file.exists():
            click.echo(f"{file}: not there, which is fine")
        elif not any(str(file) in warning for warning in loaded.warnings):
            click.echo(f"{file}: fine")
    _warn(loaded)
    missing = missing_tokens(loaded.settings)
    for line in missing:
        click.echo(f"Error: {line}", err=True)
    click.echo("\nSecrets:")
    for secret in SECRETS:
        value = getattr(loaded.settings.secrets, secret.field)
        state = f"set, from {loaded.sources[f'secrets.{secret.field}']}" if value else "not set"
        click.echo(f"  {secret.env}: {state}; {secret.purpose} and enables {', '.join(secret.enables)}")
        if not value:
            click.echo(f"    get it: {secret.where_to_get}")
    for variable, token in account_tokens(loaded.settings).items():
        click.echo(f"  {variable}: {'set' if token else 'not set'}; signs in a further bot")
    if missing:
        raise SystemExit(1)


def _say_what_it_waits_for(home: Home, token: Secret) -> None:
    from hermes_config.accounts import is_named
    from hermes_config.errors import ConfigError

    try:
        named = is_named(_loaded(home).settings, token.env)
    except ConfigError:  # of another setting; `config check` tells it
        return
    if not named:
        platform = token.enables[0]
        click.echo(f"It counts once platforms.{platform}.accounts names that bot.")


def _say_when_it_acts(home: Home) -> None:
    from gateway.lock import read_state

    if read_state(home.lock_file) is not None:
        click.echo("A gateway is running, and reads its settings when it starts: restart it for this to count.")


def _home() -> Home:
    from hermes_config.places import Home

    home = Home.locate()
    home.check_ours()
    return home


def _loaded(home: Home) -> Loaded:
    from hermes_config.load import load

    return load(home)


def _held(key: Key, loaded: Loaded) -> object:
    value: object = loaded.settings
    for name in key.dotted.split("."):
        value = getattr(value, name)
    return value


def _shown(key: Key, loaded: Loaded) -> str:
    from hermes_config import secrets

    value = _held(key, loaded)
    secret = secrets.find(key.dotted) if key.is_secret else None
    if secret is None:
        return key.as_typed(value)
    if value is None:
        return "not set"
    revealed = str(value.get_secret_value())  # type: ignore[attr-defined]
    return secrets.mask(revealed) if secret.masked else revealed


def _warn(loaded: Loaded) -> None:
    for warning in loaded.warnings:
        click.echo(f"warning: {warning}", err=True)


@contextmanager
def _plain_errors() -> Iterator[None]:
    from hermes_config.errors import ConfigError

    try:
        yield
    except ConfigError as error:
        raise click.ClickException(str(error)) from error
