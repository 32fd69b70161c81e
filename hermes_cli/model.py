"""`hermes model`: show, list and choose the model."""

import asyncio

import click

from agent_core.models.catalog import ModelCatalog
from gateway.wiring.tools import build_catalog
from hermes_cli.opening import is_terminal, open_home
from hermes_cli.setup_checks import check_model
from hermes_config.edit import set_values
from hermes_config.settings import Settings

_SHOWN = 100


@click.command()
@click.argument("name", required=False)
@click.option("--list", "lists", is_flag=True, help="List the models that the server offers.")
@click.option("--no-check", is_flag=True, help="Do not ask the model for an answer first.")
def model(name: str | None, lists: bool, no_check: bool) -> None:
    """Show the model, or choose another: hermes model NAME

    The model is asked for an answer before it is saved. To change provider or key: hermes setup model
    """
    opened = open_home(make=name is not None)
    settings = opened.settings
    if lists:
        click.echo("\n".join(_list_models(build_catalog(settings))))
    elif name is None:
        click.echo("\n".join(_describe(settings)))
    else:
        if not no_check and name != "demo":
            click.echo(f"Asking {name} for an answer …", err=True)
            problem = asyncio.run(check_model(name, settings.model.base_url, settings.secrets.by_variable()))
            if problem and not (is_terminal() and click.confirm(f"{problem}\nSave it anyway?")):
                raise click.ClickException(f"{problem}\nThe model stays {settings.model.name}.")
        for line in set_values(opened.home, {"model.name": name}):
            click.echo(line)
        click.echo("New conversations use it after `hermes gateway reload`; a running chat: /model")


def _describe(settings: Settings) -> list[str]:
    lines = [f"Model: {settings.model.name}"]
    if settings.model.base_url:
        lines.append(f"Server: {settings.model.base_url}")
    if settings.model.fallbacks:
        lines.append(f"Fallbacks: {', '.join(settings.model.fallbacks)}")
    if settings.model.auxiliary:
        lines.append(f"For summaries: {settings.model.auxiliary}")
    return [*lines, "To choose another: hermes model NAME, or hermes setup model. To list them: hermes model --list"]


def _list_models(catalog: ModelCatalog) -> list[str]:
    asyncio.run(catalog.refresh())
    if catalog.problem:
        click.echo(f"Warning: {catalog.problem}", err=True)
    names = catalog.names
    more = [f"… and {len(names) - _SHOWN:,} more"] if len(names) > _SHOWN else []
    return [*names[:_SHOWN], *more]
