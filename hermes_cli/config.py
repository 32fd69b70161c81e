"""`hermes config`: show, change and check the settings."""

import difflib
import json
import sys
from collections.abc import Iterable
from io import StringIO
from itertools import groupby
from operator import attrgetter
from typing import Any

import click

from hermes_config import environment, keys, secrets
from hermes_config.accounts import account_tokens, missing_tokens
from hermes_config.config_file import VERSION_KEY
from hermes_config.edit import replace_config, set_value, unset_value
from hermes_config.errors import ConfigError
from hermes_config.keys import Key, catalogue
from hermes_config.load import Loaded, load
from hermes_config.migration import find_missing, migrate_config, preview_migration
from hermes_config.places import Home
from hermes_config.secrets import SECRETS, find_of_account
from hermes_config.settings import CONFIG_VERSION
from hermes_config.sources import read_text
from hermes_config.types import Secret

TOOLSET_KEYS = ("agent.enabled_toolsets", "agent.disabled_toolsets", "agent.platform_toolsets")


@click.group()
def config() -> None:
    """Show, change and check the settings."""


@config.command()
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
def show(as_json: bool) -> None:
    """Print every setting, its value and where that came from."""
    loaded = load(_open_home())
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
    for section, members in groupby(catalogue().values(), key=lambda key: key.dotted.split(".")[0]):
        click.echo(click.style(section, bold=True))
        for key in members:
            click.echo(f"  {key.dotted} = {_format(key, loaded)}  ({loaded.sources.get(key.dotted, 'default')})")
    _warn(loaded.warnings)


@config.command()
@click.argument("key")
def get(key: str) -> None:
    """Print one setting or section.

    A section is printed as YAML, a secret only with its last characters.
    """
    token = secrets.find_of_account(key)
    found = keys.find(key)
    is_section = key in keys.sections()
    if found is None and token is None and not is_section:
        raise click.ClickException(keys.explain_unknown(key))
    loaded = load(_open_home())
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
    token = secrets.find_of_account(key)
    if value is None:
        if secrets.find(key) is None and token is None:
            raise click.UsageError(f"Give a value: hermes config set {key} VALUE")
        value = str(click.prompt(key, hide_input=True))
    home = _open_home()

    def verify(dotted: str, given: tuple[str, ...]) -> None:
        if dotted in TOOLSET_KEYS and (problem := _check_toolsets(home, given)):
            raise ConfigError(f"{dotted}: {problem} Nothing was changed.")

    click.echo(set_value(home, key, value, verify=verify))
    if token is not None:
        _hint_at_accounts(home, token)
    hint_at_restart(home)


@config.command()
@click.argument("key")
def unset(key: str) -> None:
    """Restore the default of a setting, or remove a secret.

    Comments in config.yaml stay.
    """
    home = _open_home()
    click.echo(unset_value(home, key))
    hint_at_restart(home)


@config.command()
def edit() -> None:
    """Open config.yaml in your editor ($VISUAL or $EDITOR).

    It is checked before it is saved.
    """
    home = _open_home()
    old = read_text(home.config_file) or ""
    text = old or f"{VERSION_KEY}: {CONFIG_VERSION}\n"
    while (edited := click.edit(text, extension=".yaml")) is not None and edited != old:
        try:
            replace_config(home, old, edited)
        except ConfigError as error:
            click.echo(f"Error: {error}", err=True)
            if not click.confirm("Edit it again?", default=True):
                break
            text = edited
        else:
            click.echo(f"{home.config_file} is saved.")
            hint_at_restart(home)
            return
    click.echo("Nothing was changed.")


@config.command()
@click.option("--dry-run", is_flag=True, help="Show the changes; make none.")
def migrate(dry_run: bool) -> None:
    """Bring config.yaml up to date, with a backup.

    Asks for keys and tokens that are missing.

    Without a terminal, what is missing is only listed.
    """
    home = _open_home()
    old, new = preview_migration(home)
    if dry_run:
        lines = difflib.unified_diff(old.splitlines(True), new.splitlines(True), "now", "after")
        click.echo("".join(lines), nl=False)
    elif backup := migrate_config(home, old, new):
        click.echo(f"{home.config_file} is up to date; the old one is {backup}.")
    if old == new:
        click.echo("config.yaml is up to date.")
    for variable in find_missing(load(home).settings):
        if dry_run or not (sys.stdin.isatty() and sys.stdout.isatty()):
            click.echo(f"Missing: {variable}. Set it: hermes config set {variable}")
        elif value := str(click.prompt(f"{variable} (Enter: later)", default="", hide_input=True, show_default=False)):
            click.echo(set_value(home, variable, value))


@config.command()
def path() -> None:
    """Print the path of config.yaml, whether or not it exists."""
    click.echo(str(Home.locate().config_file))


@config.command()
def check() -> None:
    """Check the files and the secrets.

    Exits with 1 when something is wrong.
    """
    home = _open_home()
    loaded = load(home)
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
        state = f"set, from {loaded.sources[f'secrets.{secret.field}']}" if value else "not set"
        click.echo(f"  {secret.env}: {state}; enables {', '.join(secret.enables)}")
        if not value:
            click.echo(f"    get it: {secret.where_to_get}")
    for variable, token in account_tokens(loaded.settings).items():
        click.echo(f"  {variable}: {'set' if token else 'not set'}; signs in an additional bot")
    if problems:
        raise SystemExit(1)


def _check_all_toolsets(home: Home, loaded: Loaded) -> list[str]:
    problems = []
    agent = loaded.settings.agent
    given = (agent.enabled_toolsets, agent.disabled_toolsets, agent.platform_toolsets)
    for dotted, names in zip(TOOLSET_KEYS, given, strict=True):
        if problem := _check_toolsets(home, names):
            source = loaded.sources.get(dotted, "default")  # shown with the full path of a file
            in_file = source.startswith((home.config_file.name, home.env_file.name))
            problems.append(f"{home.root / source if in_file else source}: {dotted}: {problem}")
    return problems


def _check_toolsets(home: Home, names: tuple[str, ...]) -> str:
    """Say which toolset does not exist; empty when all do.

    The user's own tools are loaded, and so run, only for a name that is not built in.
    """
    from gateway import logs
    from gateway.doctor.facts import read_secrets
    from tools.loading import load_builtin, load_folder
    from tools.toolsets import ToolsetError, check_names, split_by_platform

    if any("=" in name for name in names):
        names = tuple(name for of_platform in split_by_platform(names).values() for name in of_platform)
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
    given = loaded.settings.secrets.by_variable()
    plain = [
        f"{loaded.sources[f'secrets.{secret.field}']}: {mistake}"
        for secret in SECRETS
        if secret.env in given and (mistake := secret.describe_mistake(given[secret.env]))
    ]
    further = {find_of_account(variable): token for variable, token in account_tokens(loaded.settings).items() if token}
    return [*plain, *(mistake for one, token in further.items() if one and (mistake := one.describe_mistake(token)))]


def _hint_at_accounts(home: Home, token: Secret) -> None:
    try:
        named = token.env in account_tokens(load(home).settings)
    except ConfigError:  # about another setting; `config check` reports it
        return
    if not named:
        platform = token.enables[0]
        click.echo(f"It takes effect once platforms.{platform}.accounts names that bot.")


def hint_at_restart(home: Home) -> None:
    """Tell how a running gateway gets what was changed."""
    from gateway.lock import read_state

    if read_state(home.lock_file) is not None:
        click.echo("A gateway is running: `hermes gateway reload` applies this, or says that you must restart it.")


def _open_home() -> Home:
    home = Home.locate()
    home.check_ours()
    return home


def _get_value(key: Key, loaded: Loaded) -> object:
    return attrgetter(key.dotted)(loaded.settings)


def _format(key: Key, loaded: Loaded) -> str:
    value = _get_value(key, loaded)
    secret = secrets.find(key.dotted) if key.is_secret else None
    if secret is None:
        return key.format(value)
    if value is None:
        return "not set"
    revealed = str(value.get_secret_value())  # type: ignore[attr-defined]
    return secrets.mask(revealed) if secret.masked else revealed


def _render_section(name: str, loaded: Loaded) -> str:
    from ruamel.yaml import YAML

    tree: dict[str, Any] = {}
    for key in catalogue().values():
        if not key.dotted.startswith(f"{name}."):
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
