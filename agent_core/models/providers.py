"""Providers of models as data, and the choice of one by a model's name.

Reads no environment and opens no connection; `find_local_servers` is in `local_servers`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Literal
from urllib.parse import urlsplit

from agent_core.model import NoEndpoint
from hermes_config.settings import Settings

ReasoningSpelling = Literal["", "reasoning_content", "reasoning", "reasoning_details"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A provider. Patterns are searched in the model's name, in any case."""

    name: str  # as in `name/model`
    title: str
    base_url: str
    key_env: str = ""  # empty: no key is needed
    suggestion: str = ""  # a model to begin with
    aliases: tuple[str, ...] = ()
    models: str = r"(?!)"  # names that belong to this provider without a prefix
    reasoning: ReasoningSpelling = ""  # the field in which earlier reasoning is passed back; empty: not at all
    cache_breakpoints: str = r"(?!)"  # models for which the request must say what to cache
    signs_calls: bool = False  # tool calls carry a signature that must come back with them
    reports_cost: bool = False  # with each answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One model at one address, and all that is needed to ask it."""

    provider: str  # for people
    model: str  # as its server calls it
    base_url: str
    key: str = field(default="", repr=False)
    key_env: str = "OPENAI_API_KEY"  # empty: no variable holds a key for it
    reasoning: ReasoningSpelling = ""
    cache_breakpoints: bool = False
    signs_calls: bool = False
    reports_cost: bool = False
    sees_images: bool = False

    @property
    def is_local(self) -> bool:
        return _is_local(self.base_url)


OPENROUTER = Preset(
    name="openrouter",
    title="OpenRouter",
    base_url="https://openrouter.ai/api/v1",
    key_env="OPENROUTER_API_KEY",
    suggestion="anthropic/claude-sonnet-4.5",
    models=r"^[\w.-]+/",
    reasoning="reasoning_details",
    cache_breakpoints=r"^anthropic/|claude",
    reports_cost=True,
)
OPENAI = Preset(
    name="openai",
    title="OpenAI",
    base_url="https://api.openai.com/v1",
    key_env="OPENAI_API_KEY",
    suggestion="gpt-5-mini",
    models=r"^(gpt-|chatgpt-|o\d|ft:|codex)",
)
NOUS = Preset(
    name="nous",
    title="Nous Research",
    base_url="https://inference-api.nousresearch.com/v1",
    key_env="NOUS_API_KEY",
    suggestion="Hermes-4-405B",
    models=r"^(deep)?hermes-",
)
NOUS_PANEL = ("nous/Hermes-4-405B", "nous/Hermes-4-70B")  # asked together when nothing else is configured
ANTHROPIC = Preset(
    name="anthropic",
    title="Anthropic",
    base_url="https://api.anthropic.com/v1",
    key_env="ANTHROPIC_API_KEY",
    suggestion="claude-sonnet-4-5",
    models=r"^claude-",
)
GEMINI = Preset(
    name="gemini",
    title="Gemini",
    base_url="https://generativelanguage.googleapis.com/v1beta/openai",
    key_env="GEMINI_API_KEY",
    suggestion="gemini-2.5-pro",
    aliases=("google",),
    models=r"^gemini-",
    signs_calls=True,
)
OLLAMA = Preset(name="ollama", title="Ollama", base_url="http://127.0.0.1:11434/v1", reasoning="reasoning")
LM_STUDIO = Preset(name="lmstudio", title="LM Studio", base_url="http://127.0.0.1:1234/v1", aliases=("lm-studio",))
VLLM = Preset(name="vllm", title="vLLM", base_url="http://127.0.0.1:8000/v1", reasoning="reasoning")

PRESETS: tuple[Preset, ...] = (OPENROUTER, OPENAI, NOUS, ANTHROPIC, GEMINI, OLLAMA, LM_STUDIO, VLLM)
LOCAL_PRESETS: tuple[Preset, ...] = (OLLAMA, LM_STUDIO, VLLM)

_SEES = re.compile(
    r"gpt-4o|gpt-4\.1|gpt-4-turbo|gpt-5|chatgpt-4o|\bo[134](?!-mini)|o4-mini|claude|gemini|llava|vision|\bvl\b|[-\d.]vl\b|pixtral"
    r"|gemma-?3|llama-?4|grok-4|mistral-(small|medium)-3|moondream|minicpm-v",
    re.I,
)
DEFAULT_WINDOW_TOKENS = 128_000
_WINDOWS = (  # the first pattern that is found in the name counts
    (r"gpt-4\.1|gemini|claude.*\[1m\]|llama-?4", 1_000_000),
    (r"gpt-5|codex", 272_000),
    (r"grok-4", 256_000),
    (r"claude|\bo[1345](-|$)|o4-mini|glm-4\.[6-9]|kimi", 200_000),
    (r"qwen3-coder|qwen3-max", 256_000),
    (r"gpt-3\.5", 16_000),
    (r"gpt-4(-0|$)", 8_000),
    (r"\b(8k|4k)\b", 8_000),
    (r"mixtral|mistral-7b|hermes-[23](?!.*(llama-?3\.[1-9]))|qwen2\.5|\b32k\b", 32_000),
)
_WANTS_THOUGHTS_BACK = re.compile(r"deepseek|kimi|glm|qwen3", re.I)


def choose(model_name: str, base_url: str, keys: Mapping[str, str]) -> Endpoint:
    """Return the endpoint for a model's name; raises NoEndpoint. `keys` holds the keys that are set, by variable.

    A key under the empty name goes to servers that need none, for callers who pass one for this very server.

    A given address always wins, and gets the name as it is. Otherwise the part before the first slash may name a
    provider, which is taken when its key is set or it needs none. If not, OpenRouter serves the whole name, since its
    names look the same; `openrouter/…` always means OpenRouter. A name without a slash goes to the provider whose
    models are called so, else to OpenAI.
    """
    name = model_name.strip()
    if not name:
        raise NoEndpoint("No model is set. Choose one with `hermes config set model.name …`.")
    if base_url:
        return _endpoint_at(base_url, name, keys)
    prefix, _, rest = name.partition("/")
    named = find_preset(prefix) if rest else None
    if named and (not named.key_env or keys.get(named.key_env)):
        return _endpoint(named, rest, keys)
    if named and (named is OPENROUTER or not keys.get(OPENROUTER.key_env)):
        raise NoEndpoint(_needs(named, name))
    by_name = (preset for preset in PRESETS if re.search(preset.models, name, re.I))
    meant = next(by_name, OPENAI)
    if not keys.get(meant.key_env):
        raise NoEndpoint(_needs(meant, name))
    return _endpoint(meant, name, keys)


def find_preset(name: str) -> Preset | None:
    wanted = name.lower()
    return next((preset for preset in PRESETS if wanted == preset.name or wanted in preset.aliases), None)


def sees_images(model_name: str) -> bool:
    return bool(_SEES.search(model_name))


def window_tokens(model_name: str) -> int:
    """Return the context window of a model as far as its name tells."""
    return next((size for name, size in _WINDOWS if re.search(name, model_name, re.I)), DEFAULT_WINDOW_TOKENS)


def _endpoint_at(base_url: str, name: str, keys: Mapping[str, str]) -> Endpoint:
    address = base_url.rstrip("/")
    preset = next((preset for preset in PRESETS if _is_same_server(preset.base_url, address)), None)
    if preset is None:
        host = urlsplit(address).netloc
        preset = Preset(
            name="",
            title=f"the server at {host}",
            base_url=address,
            key_env=OPENAI.key_env,
            reasoning="reasoning_content" if _WANTS_THOUGHTS_BACK.search(name) else "",
        )
    model = name.removeprefix(f"{preset.name}/") if preset.name else name
    return _endpoint(preset, model, keys, base_url=address)


def _endpoint(preset: Preset, model: str, keys: Mapping[str, str], *, base_url: str = "") -> Endpoint:
    address = base_url or preset.base_url
    return Endpoint(
        provider=preset.title,
        model=model,
        base_url=address,
        # Each server gets its own key only; a local one that needs none gets none.
        key=keys.get(preset.key_env, ""),
        key_env=preset.key_env,
        reasoning=preset.reasoning,
        cache_breakpoints=bool(re.search(preset.cache_breakpoints, model, re.I)),
        signs_calls=preset.signs_calls,
        reports_cost=preset.reports_cost,
        sees_images=sees_images(model),
    )


def _needs(preset: Preset, name: str) -> str:
    either = f"Put {preset.key_env} into .env"
    if preset is not OPENROUTER:
        routed = name if "/" in name else f"{preset.name}/{name}"
        either += f" (or {OPENROUTER.key_env}, to ask for {routed} at OpenRouter)"
    return (
        f"The model “{name}” is served by {preset.title}, but no key for it is set. {either}, or choose another model."
    )


def _is_same_server(one: str, other: str) -> bool:
    first, second = urlsplit(one), urlsplit(other)
    if _is_local(one) and _is_local(other):
        return first.port == second.port
    return first.hostname == second.hostname


def _is_local(address: str) -> bool:
    host = urlsplit(address).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def endpoints(settings: Settings) -> dict[str, Endpoint | NoEndpoint]:
    """Return for each configured model its endpoint, or why it has none, in order. The demo model needs none."""
    model, keys = settings.model, settings.secrets.by_variable()
    wanted = {model.name: model.base_url} | {name: "" for name in model.fallbacks if name != model.name}
    found: dict[str, Endpoint | NoEndpoint] = {}
    for name, base_url in wanted.items():
        if name != "demo":
            try:
                found[name] = choose(name, base_url, keys)
            except NoEndpoint as problem:
                found[name] = problem
    return found
