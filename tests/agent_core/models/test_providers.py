"""Which server a model's name leads to, and what is said when it leads nowhere."""

import socket

import pytest

from agent_core.model import NoEndpoint
from agent_core.models.local_servers import LocalServer, find_local_servers
from agent_core.models.openai_errors import unreachable, wrong_key
from agent_core.models.providers import PRESETS, Preset, choose, sees_images
from playground.model_server import ModelServer

KEYS = {preset.key_env: f"key-of-{preset.name}" for preset in PRESETS if preset.key_env}
ROUTER_ONLY = {"OPENROUTER_API_KEY": "or"}


@pytest.mark.parametrize(
    ("name", "provider", "model"),
    [
        ("openrouter/anthropic/claude-sonnet-4", "OpenRouter", "anthropic/claude-sonnet-4"),
        ("anthropic/claude-sonnet-4", "Anthropic", "claude-sonnet-4"),
        ("openai/gpt-5", "OpenAI", "gpt-5"),
        ("google/gemini-2.5-pro", "Gemini", "gemini-2.5-pro"),
        ("nous/Hermes-4-405B", "Nous Research", "Hermes-4-405B"),
        ("ollama/llama3.2:3b", "Ollama", "llama3.2:3b"),
        ("lmstudio/qwen/qwen3-8b", "LM Studio", "qwen/qwen3-8b"),
        ("vllm/NousResearch/Hermes-3", "vLLM", "NousResearch/Hermes-3"),
        ("meta-llama/llama-3.3-70b", "OpenRouter", "meta-llama/llama-3.3-70b"),
        ("gpt-4o", "OpenAI", "gpt-4o"),
        ("claude-opus-4-1", "Anthropic", "claude-opus-4-1"),
        ("gemini-2.5-flash", "Gemini", "gemini-2.5-flash"),
        ("Hermes-4-70B", "Nous Research", "Hermes-4-70B"),
        ("something-new", "OpenAI", "something-new"),
    ],
)
def test_a_name_leads_to_its_provider(name: str, provider: str, model: str) -> None:
    chosen = choose(name, "", KEYS)
    assert (chosen.provider, chosen.model) == (provider, model)
    assert chosen.key == (KEYS[chosen.key_env] if not chosen.is_local else "")


def test_openrouter_serves_what_its_own_key_is_missing_for() -> None:
    chosen = choose("anthropic/claude-sonnet-4", "", ROUTER_ONLY)
    assert (chosen.provider, chosen.model) == ("OpenRouter", "anthropic/claude-sonnet-4")
    assert chosen.cache_breakpoints
    assert chosen.reasoning == "reasoning_details"


@pytest.mark.parametrize(
    ("name", "keys", "words"),
    [
        ("", KEYS, "No model is set"),
        ("openai/gpt-5", {}, "OPENAI_API_KEY into .env (or OPENROUTER_API_KEY, to ask for openai/gpt-5"),
        ("openrouter/x/y", {"OPENAI_API_KEY": "k"}, "Put OPENROUTER_API_KEY into .env, or"),
        ("meta-llama/llama-3", {}, "OPENROUTER_API_KEY"),
        ("claude-opus-4-1", ROUTER_ONLY, "to ask for anthropic/claude-opus-4-1 at OpenRouter"),
        ("nous/Hermes-4-405B", {}, "NOUS_API_KEY"),
    ],
)
def test_without_the_key_the_error_names_it(name: str, keys: dict[str, str], words: str) -> None:
    with pytest.raises(NoEndpoint) as caught:
        choose(name, "", keys)
    assert words in str(caught.value)


def test_an_address_always_wins_and_the_name_goes_there_as_it_is() -> None:
    chosen = choose("anthropic/claude-sonnet-4", "https://models.example.org/v1/", KEYS)
    assert chosen.model == "anthropic/claude-sonnet-4"
    assert chosen.base_url == "https://models.example.org/v1"
    assert chosen.provider == "the server at models.example.org"
    assert (chosen.key, chosen.key_env) == ("key-of-openai", "OPENAI_API_KEY")


def test_a_known_address_has_its_providers_habits_and_key() -> None:
    router = choose("openai/gpt-5", "https://openrouter.ai/api/v1", KEYS)
    assert (router.provider, router.model, router.key) == ("OpenRouter", "openai/gpt-5", "key-of-openrouter")
    local = choose("ollama/llama3.2", "http://localhost:11434/v1", {})
    assert (local.provider, local.model, local.key) == ("Ollama", "llama3.2", "")
    assert local.is_local


def test_a_key_is_not_printed_with_its_endpoint() -> None:
    assert "key-of" not in repr(choose("gpt-4o", "", KEYS))


@pytest.mark.parametrize(
    ("name", "sees"),
    [
        ("gpt-4o-mini", True),
        ("openai/gpt-5", True),
        ("o3-mini", False),
        ("claude-sonnet-4", True),
        ("google/gemini-2.5-pro", True),
        ("qwen2.5-vl-7b", True),
        ("qwen2.5vl:7b", True),
        ("gpt-3.5-turbo", False),
        ("mystery", False),
    ],
)
def test_what_a_name_tells_about_a_model(name: str, sees: bool) -> None:
    assert sees_images(name) == sees


@pytest.mark.parametrize("address", ["http://localhost:11434/v1", "https://api.anthropic.com/v1"])
def test_the_key_for_openai_is_not_shown_to_a_server_with_a_name_of_its_own(address: str) -> None:
    assert choose("some-model", address, {"OPENAI_API_KEY": "secret"}).key == ""


def test_the_variable_named_is_the_one_that_is_used() -> None:
    assert choose("some-model", "https://api.anthropic.com/v1", {}).key_env == "ANTHROPIC_API_KEY"
    ollama = choose("some-model", "http://localhost:11434/v1", {})
    assert ollama.key_env == ""
    assert str(wrong_key(ollama)) == (
        "Ollama at http://localhost:11434/v1 wants a key, but none is sent. Start it without one."
    )
    given = choose("some-model", "http://localhost:11434/v1", {"": "given"})
    assert str(wrong_key(given)) == "Ollama at http://localhost:11434/v1 does not accept the key that was given."


@pytest.mark.parametrize("name", ["deepseek-reasoner", "moonshotai/Kimi-K2-Thinking", "glm-4.6", "Qwen3-32B"])
def test_models_that_want_their_thoughts_back_get_them_at_any_address(name: str) -> None:
    assert choose(name, "https://models.example.org/v1", KEYS).reasoning == "reasoning_content"
    assert choose("mistral-large", "https://models.example.org/v1", KEYS).reasoning == ""


async def test_local_servers_are_found_with_their_models() -> None:
    with socket.socket() as unused, socket.socket() as deaf:
        unused.bind(("127.0.0.1", 0))
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        async with ModelServer(api_key="none", models=["llama3.2", "qwen3"]) as server:
            presets = [
                Preset(name="vllm", title="vLLM", base_url=f"http://127.0.0.1:{unused.getsockname()[1]}/v1"),
                Preset(name="lmstudio", title="LM Studio", base_url=f"http://127.0.0.1:{deaf.getsockname()[1]}/v1"),
                Preset(name="ollama", title="Ollama", base_url=server.url),
            ]
            refused = await find_local_servers(0.2, presets)
            server.open_to_all = True
            found = await find_local_servers(0.2, presets)
    assert refused == ()
    assert found == (LocalServer(title="Ollama", base_url=server.url, models=("ollama/llama3.2", "ollama/qwen3")),)


def test_an_address_is_said_once() -> None:
    said = str(unreachable(choose("mine", "http://127.0.0.1:9/v1", {})))
    assert said.startswith("The connection to the server at http://127.0.0.1:9/v1 failed. ")
    said = str(unreachable(choose("ollama/mine", "", {})))
    assert said.startswith("The connection to Ollama at http://127.0.0.1:11434/v1 failed. ")
