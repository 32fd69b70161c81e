"""The sections of `hermes setup`: each asks, checks, and writes what has changed."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import attrgetter

import click

from agent_core.models.local_servers import find_local_servers
from agent_core.models.providers import LOCAL_PRESETS, OPENAI, OPENROUTER, PRESETS, Preset
from gateway import logs
from gateway.lock import read_state
from gateway.platforms.all import PLATFORMS, find_spec
from gateway.platforms.spec import PlatformSpec
from gateway.policies import pairing as words
from gateway.store import chats, members, pairing
from gateway.store.db.connection import Transaction
from gateway.wiring.basics import secret_values
from gateway.wiring.policies import build_pairing_limits
from hermes_cli.opening import OpenedStore, open_home, read_store, with_store
from hermes_cli.setup_checks import check_model, check_tokens, qualify_name
from hermes_config import secrets
from hermes_config.accounts import bots
from hermes_config.edit import set_values
from hermes_config.errors import ConfigError
from hermes_config.keys import catalogue
from hermes_config.load import Loaded, load
from hermes_config.places import Home
from hermes_config.platforms import PLATFORMS as CONFIGS
from hermes_config.settings import Settings
from hermes_config.types import Secret
from tools.workplaces import sandbox_problem

DEMO, OTHER = "demo", "other"


@dataclass(slots=True, kw_only=True)
class SetupState:
    """The home that is set up, its settings so far, and what was written."""

    home: Home
    loaded: Loaded
    saved: list[str] = field(default_factory=list)
    bot_names: dict[str, str] = field(default_factory=dict)  # of the platforms that were checked

    @classmethod
    def open(cls) -> "SetupState":
        opened = open_home(make=False)  # nothing is made before the first answer
        # The answer to a question reports a failed check; a log line would repeat it.
        logs.configure(level="error", style="auto", secrets=secret_values(opened.settings))
        return cls(home=opened.home, loaded=load(opened.home))

    @property
    def settings(self) -> Settings:
        return self.loaded.settings

    def save(self, what: str, texts: Mapping[str, str]) -> None:
        """Write what the files do not say already, each file in one step, and load the settings again."""
        changed = {key: text for key, text in texts.items() if text != self.read(key) or self._is_from_outside(key)}
        if not changed:
            click.echo("Unchanged.")
            return
        for line in set_values(self.home, changed):
            click.echo(line)
        self.loaded = load(self.home)
        self.saved.append(what)

    def read(self, key: str) -> str:
        """Return a setting as `hermes config set` takes it, or a secret in plain text; empty when not set."""
        if secret := secrets.find(key):
            return self.settings.secrets.by_variable().get(secret.env, "")
        return catalogue()[key].format(attrgetter(key)(self.settings))

    def _is_from_outside(self, key: str) -> bool:
        """Return whether a value comes from the environment, which the gateway may not have later."""
        secret = secrets.find(key)
        source = self.loaded.sources.get(f"secrets.{secret.field}" if secret else key, "")
        return bool(source) and not source.startswith((self.home.config_file.name, self.home.env_file.name))

    @property
    def opened(self) -> OpenedStore:
        return OpenedStore(home=self.home, settings=self.settings)

    @property
    def platforms(self) -> list[str]:
        """Return the platforms with tokens whose bots are on."""
        return [spec.name for spec in PLATFORMS if spec.token_checks and bots(self.settings, spec.name)]


def ask_model(state: SetupState) -> None:
    current = state.settings.model.name
    if current != DEMO and not click.confirm(f"The model is {current}. Change it?", default=False):
        return
    while True:
        texts = _ask_for_model(state)
        if texts["model.name"] == DEMO:
            break
        keys = state.settings.secrets.by_variable() | {name: text for name, text in texts.items() if name.isupper()}
        click.echo(f"Asking {texts['model.name']} for an answer …")
        problem = asyncio.run(check_model(texts["model.name"], texts["model.base_url"], keys))
        if not problem:
            click.secho("It answers.", fg="green")
            break
        click.secho(problem, fg="red")
        answer = _choose("What now?", {"again": "try again", "save": "save it anyway", "skip": "leave it as it was"})
        if answer == "skip":
            return
        if answer == "save":
            break
    state.save("model", texts)


def _ask_for_model(state: SetupState) -> dict[str, str]:
    """Return the settings of a model and its key, as chosen."""
    found = {server.base_url: server for server in asyncio.run(find_local_servers())}
    local = {preset.name: preset for preset in LOCAL_PRESETS if preset.base_url in found}
    hosted = {preset.name: preset for preset in PRESETS if preset not in LOCAL_PRESETS}
    options = {name: f"{preset.title}, running on this machine" for name, preset in local.items()}
    options |= {name: preset.title for name, preset in hosted.items()}
    options |= {OTHER: "another OpenAI-compatible server", DEMO: "none yet: a few fixed phrases, offline"}
    has_key = (preset.name for preset in hosted.values() if state.read(preset.key_env))
    provider = _choose("Where does the model run?", options, default=next(iter(local), next(has_key, OPENROUTER.name)))
    if provider == DEMO:
        return {"model.name": DEMO, "model.base_url": ""}
    if provider in local:
        names = found[local[provider].base_url].models
        name = str(click.prompt("Model", default=names[0] if names else f"{provider}/"))
        return {"model.name": name, "model.base_url": ""}
    if provider == OTHER:
        return _ask_for_server(state)
    preset = hosted[provider]
    key = _ask_secret(state, secrets.get(preset.key_env))
    name = str(click.prompt("Model", default=preset.suggestion))
    keys = state.settings.secrets.by_variable() | {preset.key_env: key}
    return ({preset.key_env: key} if key else {}) | {
        "model.name": qualify_name(name, preset, keys),
        "model.base_url": "",
    }


def _ask_for_server(state: SetupState) -> dict[str, str]:
    current = state.settings.model
    address = str(click.prompt("Its address", default=current.base_url or "http://127.0.0.1:8000/v1"))
    key = _ask_secret(state, secrets.get(OPENAI.key_env))
    servers = asyncio.run(find_local_servers(presets=(Preset(name="", title="", base_url=address.rstrip("/")),)))
    names = [name.removeprefix("/") for server in servers for name in server.models]
    name = str(click.prompt("Model", default=names[0] if names else None if current.name == DEMO else current.name))
    return ({OPENAI.key_env: key} if key else {}) | {"model.name": name, "model.base_url": address}


def ask_platforms(state: SetupState) -> None:
    for spec in (spec for spec in PLATFORMS if spec.token_checks):
        label = CONFIGS[spec.name].label
        has_bot = spec.name in state.platforms
        question = f"{label} is set up. Change its token?" if has_bot else f"Connect {label}?"
        if click.confirm(question, default=False):
            _ask_platform(state, spec)


def _ask_platform(state: SetupState, spec: PlatformSpec) -> None:
    while True:
        needed = secrets.find_tokens(spec.name)
        tokens = {secret.env: _ask_secret(state, secret) for secret in needed}
        if not all(tokens.values()):
            click.echo(f"Without a token there is no bot; {spec.name} stays as it was.")
            return
        answers = asyncio.run(check_tokens(state.settings, spec, list(tokens.values())))
        for answer in answers:
            click.secho(
                f"{answer.finding.text}.", fg={"ok": "green", "warn": "yellow", "bad": "red"}[answer.finding.level]
            )
        levels = {answer.finding.level for answer in answers}
        if "bad" in levels:
            if not click.confirm("Type it again?", default=True):
                return
            continue
        if "warn" in levels and not click.confirm("Save it without the check?", default=False):
            return
        break
    state.save(spec.name, tokens | {f"platforms.{spec.name}.enabled": "true"})
    state.bot_names[spec.name] = next((answer.bot_name for answer in answers if answer.bot_name), "")
    for answer in answers:
        if answer.next_step:
            click.echo(f"Next: {answer.next_step}")


def ask_owner(state: SetupState) -> None:
    if not state.platforms:
        click.echo("No platform is connected, so nobody but you at this machine can talk to it.")
        return
    known = bool(state.settings.access.owner_users) or read_store(state.opened, members.has_owner)
    if known and not click.confirm("There is an owner already. Add another?", default=False):
        return
    labels = {name: CONFIGS[name].label for name in state.platforms}
    platform = _choose("Where do you talk to it?", labels) if len(labels) > 1 else next(iter(labels))
    config = CONFIGS[platform]
    click.echo(f"Your id on {config.label} makes you the owner (to find it: {config.find_user_id}).")
    while True:
        own = str(click.prompt("Your id, or Enter for an invite", default="", show_default=False)).strip()
        if not own:
            print_invite(state, platform)
            break
        owners = [*state.settings.access.owner_users, f"{platform}:{own.removeprefix(f'{platform}:')}"]
        if _save_or_explain(state, "owner", {"access.owner_users": ",".join(owners)}):
            break
    while True:
        others = str(
            click.prompt("Ids of others who may talk to it", default=state.read("access.allowed_users") or "nobody")
        )
        allowed = "" if others.strip() == "nobody" else others
        if allowed == state.read("access.allowed_users"):
            return
        if _save_or_explain(state, "allowlist", {"access.allowed_users": allowed}):
            return


def print_invite(state: SetupState, platform: str) -> None:
    """Create an invite that makes one person the owner, and print it."""
    state.home.prepare()
    limits = build_pairing_limits(state.settings)

    def unit(tx: Transaction) -> tuple[str, str]:
        return pairing.invite(tx, platform, "owner", limits, by="setup"), chats.read_cursor(tx, platform, "username")

    code, username = with_store(state.opened, lambda db: db.write(unit))
    name = state.bot_names.get(platform) or username
    click.echo(f"This makes you the owner, once, within {words.in_words(limits.code_ms)}, while the gateway runs:")
    if name and find_spec(platform).invites_by_link:
        click.echo(f"  {words.deep_link(name, code)}")
    else:
        click.echo(f"  send {code} to {name or 'the bot'} on {CONFIGS[platform].label}, as a direct message")
    state.saved.append("invite")


def ask_terminal(state: SetupState) -> None:
    problem = sandbox_problem()
    click.echo(f"A sandbox does not work here: {problem}" if problem else "A sandbox works here.")
    options = {
        "auto": "in a sandbox where one works, else on this machine",
        "sandbox": "in a sandbox only",
        "local": "on this machine, as you; risky commands are asked about",
        "docker": "in containers of docker or podman",
        "ssh": "on another machine; risky commands are asked about",
        "singularity": "in instances of apptainer or singularity",
        "modal": "in sandboxes at Modal (needs an account)",
        "daytona": "in sandboxes at Daytona (needs an account)",
    }
    backend = _choose("Where do your commands run?", options, default=state.settings.terminal.backend)
    if backend == "ssh":
        host = str(click.prompt("The machine, as ssh names it", default=state.settings.terminal.ssh.host or None))
        _save_or_explain(state, "terminal", {"terminal.ssh.host": host})
    folder = str(click.prompt("Folder in which the agent works", default=state.settings.terminal.cwd))
    _save_or_explain(state, "terminal", {"terminal.backend": backend, "terminal.cwd": folder})


def ask_service(state: SetupState) -> None:
    from hermes_cli.gateway_service import install_service
    from hermes_cli.service import find_installed, has_systemd

    unit = find_installed()
    if unit is None and read_state(state.home.lock_file) is not None:
        click.echo("A gateway runs already. To apply the changes: stop it (hermes gateway stop) and start it again.")
    elif unit is not None:
        if state.saved and click.confirm("Restart the service to apply the changes?", default=True):
            unit.call("restart", unit.file.stem)
            click.echo("The gateway runs.")
    elif not has_systemd():
        click.echo("There is no systemd for your user here. Start the gateway: hermes gateway run")
    elif click.confirm("Start Hermes now, and whenever this machine starts?", default=True):
        install_service()
        state.saved.append("service")
    else:
        click.echo("To start it: hermes gateway run")


def _save_or_explain(state: SetupState, what: str, texts: Mapping[str, str]) -> bool:
    """Save, or say why that was refused; return whether it was saved."""
    try:
        state.save(what, texts)
    except ConfigError as error:
        click.secho(str(error), fg="red")
        return False
    return True


def _choose(question: str, options: Mapping[str, str], *, default: str = "") -> str:
    """Ask for one of the options, by its number or its name."""
    names = list(options)
    click.echo(question)
    width = max(map(len, names))
    for number, (name, text) in enumerate(options.items(), start=1):
        click.echo(f"  {number}) {name:<{width}}  {text}")
    chosen = default or names[0]
    while True:
        answer = str(click.prompt("Choice", default=str(names.index(chosen) + 1))).strip().lower()
        if answer.isdecimal() and 1 <= int(answer) <= len(names):
            return names[int(answer) - 1]
        if answer in options:
            return answer
        click.echo(f"Type a number from 1 to {len(names)}.")


def _ask_secret(state: SetupState, secret: Secret) -> str:
    """Ask for a secret, hidden; Enter keeps the one that is set, or gives none."""
    current = state.read(secret.env)
    hint = f"Enter keeps {secrets.mask(current)}" if current else "not shown; Enter: none"
    click.echo(f"{secret.env} {secret.purpose}. Get it: {secret.where_to_get}.")
    while True:
        typed = str(click.prompt(f"{secret.env} ({hint})", default="", hide_input=True, show_default=False)).strip()
        mistake = secret.describe_mistake(typed) if typed else ""
        if not mistake:
            return typed or current
        click.secho(mistake, fg="red")
