"""Which of the models have no price, where money is limited."""

import pytest

from gateway.wiring.policies import unpriced_models
from hermes_config.secrets import Secrets
from hermes_config.settings import BudgetsSettings, ModelSettings, Settings


def settings(name: str, *fallbacks: str, usd: float = 2, prices: tuple[str, ...] = ()) -> Settings:
    return Settings(
        model=ModelSettings(name=name, fallbacks=fallbacks),
        budgets=BudgetsSettings(day_usd=usd, day_tokens=100, prices=prices),
        secrets=Secrets.model_validate({"openai_api_key": "sk-1", "openrouter_api_key": "sk-2"}),
    )


@pytest.mark.parametrize(
    ("chosen", "unpriced"),
    [
        (settings("gpt-5"), ["gpt-5"]),
        (settings("gpt-5", usd=0), []),
        (settings("gpt-5", prices=("gpt-*=1:1:1",)), []),
        (settings("anthropic/claude-sonnet-4.5"), []),  # OpenRouter tells
        (settings("anthropic/claude-sonnet-4.5", "o3", "openai/gpt-5"), ["o3", "gpt-5"]),
        (settings("demo"), []),
        (settings("claude-opus"), []),  # without its key it cannot be asked at all, and says so
        (settings("ollama/llama3"), ["llama3"]),
    ],
)
def test_a_limit_in_money_does_not_bind_what_has_no_price(chosen: Settings, unpriced: list[str]) -> None:
    assert unpriced_models(chosen) == unpriced
