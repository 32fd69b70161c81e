"""Where the models that are set would be asked."""

from agent_core.model import NoEndpoint
from agent_core.models.providers import Endpoint, endpoints
from hermes_config.settings import Settings


def test_the_first_model_comes_first_and_alone_has_the_address() -> None:
    chosen = {"name": "mine", "base_url": "http://127.0.0.1:1/v1", "fallbacks": ("gpt-5", "mine")}
    settings = Settings.model_validate({"model": chosen, "secrets": {"openai_api_key": "sk-1"}})
    first, second = endpoints(settings).values()
    assert isinstance(first, Endpoint)
    assert isinstance(second, Endpoint)
    assert (first.model, first.base_url) == ("mine", "http://127.0.0.1:1/v1")
    assert (second.model, second.key) == ("gpt-5", "sk-1")
    assert second.base_url != first.base_url


def test_one_that_cannot_be_asked_says_why() -> None:
    settings = Settings.model_validate({"model": {"name": "gpt-5"}})
    assert isinstance(endpoints(settings)["gpt-5"], NoEndpoint)


def test_the_demo_model_is_asked_nowhere() -> None:
    assert endpoints(Settings()) == {}
