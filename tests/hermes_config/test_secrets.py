"""The table of secrets, and how much of one is ever shown."""

import pytest

from hermes_config.load import load
from hermes_config.places import Home
from hermes_config.secrets import SECRETS, Secrets, find, mask


def test_the_table_and_the_settings_name_the_same_secrets() -> None:
    assert [secret.field for secret in SECRETS] == list(Secrets.model_fields)


def test_every_secret_says_what_for_and_where_from() -> None:
    for secret in SECRETS:
        assert secret.purpose
        assert secret.where_to_get
        assert secret.enables
    assert [secret.env for secret in SECRETS if not secret.masked] == ["BROWSERBASE_PROJECT_ID"]


@pytest.mark.parametrize(
    ("value", "shown"),
    [("", "…"), ("abc", "…"), ("abcd", "…d"), ("abcdefgh", "…gh"), ("a" * 40 + "wxyz", "…wxyz")],
)
def test_mask_shows_a_quarter_and_four_characters_at_most(value: str, shown: str) -> None:
    assert mask(value) == shown


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "openai_api_key", "secrets.openai_api_key"])
def test_a_secret_is_found_by_each_of_its_names(name: str) -> None:
    secret = find(name)
    assert secret is not None
    assert secret.env == "OPENAI_API_KEY"


def test_loaded_settings_do_not_print_secrets(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-value")
    loaded = load(home)
    assert "very-secret" not in repr(loaded) + str(loaded.settings.model_dump())
    assert loaded.settings.secrets.openai_api_key is not None
    assert loaded.settings.secrets.openai_api_key.get_secret_value() == "sk-very-secret-value"
