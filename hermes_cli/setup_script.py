"""`hermes setup --non-interactive`: all answers come as flags, keys and tokens from the environment."""

import asyncio

import click

from agent_core.models.providers import PRESETS
from gateway.platforms.all import PLATFORMS
from hermes_cli.gateway_service import install_service
from hermes_cli.setup_checks import check_model, check_tokens
from hermes_cli.setup_sections import DEMO, SetupState, print_invite
from hermes_config import environment
from hermes_config.secrets import find_tokens


def apply_flags(
    state: SetupState,
    *,
    model: str | None,
    base_url: str | None,
    owners: tuple[str, ...],
    allowed: tuple[str, ...],
    backend: str | None,
    folder: str | None,
    invite: str | None,
    service: bool,
    no_check: bool,
) -> None:
    """Check and write all of it at once; when a check fails, nothing is written. None or empty: leave that as it is."""
    given = {
        "model.name": model,
        "model.base_url": base_url,
        "access.owner_users": ",".join(owners) or None,
        "access.allowed_users": ",".join(allowed) or None,
        "terminal.backend": backend,
        "terminal.cwd": folder,
    }
    texts = _read_secrets() | {key: text for key, text in given.items() if text is not None}
    if not no_check:
        _check(state, texts)
    if invite and invite not in state.platforms:
        raise click.UsageError(f"--invite {invite}: no bot of that platform has its token set.")
    state.save("settings", texts)
    if invite:
        print_invite(state, invite)
    if service:
        install_service()


def _read_secrets() -> dict[str, str]:
    """Return the keys of models and the tokens of bots that the environment has."""
    names = {preset.key_env for preset in PRESETS if preset.key_env}
    names |= {secret.env for spec in PLATFORMS for secret in find_tokens(spec.name)}
    return {name: environment.get(name) for name in sorted(names) if environment.has(name)}


def _check(state: SetupState, texts: dict[str, str]) -> None:
    problems = []
    for spec in (spec for spec in PLATFORMS if spec.token_checks and spec.name in state.platforms):
        tokens = [state.read(secret.env) for secret in find_tokens(spec.name)]
        for answer in asyncio.run(check_tokens(state.settings, spec, tokens)):
            if answer.finding.level == "ok":
                click.echo(f"{answer.finding.text}.")
                state.bot_names[spec.name] = state.bot_names.get(spec.name) or answer.bot_name
            else:
                problems.append(answer.finding.text)
    name = texts.get("model.name", state.settings.model.name)
    if name != DEMO:
        address = texts.get("model.base_url", state.settings.model.base_url)
        problem = asyncio.run(check_model(name, address, state.settings.secrets.by_variable()))
        problems += [problem] if problem else []
        click.echo("" if problem else f"{name} answers.", nl=not problem)
    if problems:
        lines = "\n".join(problems)
        raise click.ClickException(f"{lines}\nNothing was changed. To save it all the same: --no-check")
