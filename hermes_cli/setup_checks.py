"""Ask the servers whether the answers given to `hermes setup` work."""

from collections.abc import Mapping, Sequence

from agent_core.model import ModelError, NoEndpoint, ask_once
from agent_core.models.factory import ModelOptions, open_model
from agent_core.models.providers import Preset, choose
from agent_core.models.retries import Retries, Timeouts
from gateway.doctor.live import TokenAnswer, ask_all, list_account_probes
from gateway.platforms.spec import PlatformSpec
from hermes_config.settings import Settings

_QUESTION = "Reply with the word ready."
_TIMEOUTS = Timeouts(connect_seconds=10, first_byte_seconds=60, idle_seconds=30, whole_seconds=90)


async def check_model(name: str, base_url: str, keys: Mapping[str, str]) -> str:
    """Ask the model one short question; return why it cannot answer, empty when it does."""
    options = ModelOptions(timeouts=_TIMEOUTS, retries=Retries(attempts=1))
    model = open_model(name, base_url=base_url, keys=keys, options=options)
    try:
        await ask_once(model, _QUESTION)
    except ModelError as error:
        return str(error)
    finally:
        if close := getattr(model, "aclose", None):
            await close()
    return ""


async def check_tokens(settings: Settings, spec: PlatformSpec, tokens: Sequence[str]) -> list[TokenAnswer]:
    """Ask the platform's server about each token of its default bot."""
    return await ask_all(list(list_account_probes(settings, spec, spec.name, tokens)))


def qualify_name(name: str, preset: Preset, keys: Mapping[str, str]) -> str:
    """Return the name with the provider in front, where it alone would be sent to another one."""
    try:
        is_same = choose(name, "", keys).provider == preset.title
    except NoEndpoint:
        is_same = False
    return name if is_same else f"{preset.name}/{name}"
