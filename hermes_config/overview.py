"""The parts that are on or off, with the commands that change them: the first thing a gateway prints."""

from dataclasses import dataclass

from hermes_config.accounts import bots
from hermes_config.platforms import PLATFORMS
from hermes_config.secrets import find_tokens
from hermes_config.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A line of the overview; `switch` is the command that turns the part on or changes it."""

    name: str
    on: bool
    text: str
    switch: str


def parts(settings: Settings, *, command: str = "hermes") -> list[Part]:
    """Return the model and every platform."""
    model = settings.model.name
    text = "demo: offline and rule-based, to try things out" if model == "demo" else model
    model_part = Part(name="model", on=True, text=text, switch=f"{command} config set model.name …")
    return [model_part, *(_describe_platform(settings, name, command) for name in PLATFORMS)]


def _describe_platform(settings: Settings, name: str, command: str) -> Part:
    config, tokens = PLATFORMS[name], find_tokens(name)
    if not tokens:
        on = getattr(settings.platforms, name).enabled
        switch = f"{command} config set platforms.{name}.enabled {str(not on).lower()}"
        return Part(name=name, on=on, text=config.summary, switch=switch)
    accounts = bots(settings, name)
    verb = "its token comes" if len(tokens) == 1 else "its tokens come"
    details = f": {', '.join(accounts)}" if accounts else f"; {verb} from {config.obtained_from}"
    switch = f"{command} config set {tokens[0].env}"
    return Part(name=name, on=bool(accounts), text=f"{config.summary}{details}", switch=switch)
