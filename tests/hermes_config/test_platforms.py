"""The list of platforms is the only place that the rest of the settings reads them from."""

from pathlib import Path

import pytest

import hermes_config
from hermes_config.errors import ConfigError
from hermes_config.keys import find
from hermes_config.load import load
from hermes_config.overview import parts
from hermes_config.places import Home
from hermes_config.platforms import PLATFORMS
from hermes_config.secrets import find_tokens
from hermes_config.settings import Settings

BOTS = [name for name, config in PLATFORMS.items() if not config.is_local]


def test_no_other_module_names_a_platform() -> None:
    root = Path(hermes_config.__file__).parent
    words = [word for name in BOTS for word in (name, PLATFORMS[name].label)]
    found = {path.name: word for path in root.glob("*.py") for word in words if word in path.read_text()}
    assert found == {}


def test_every_platform_is_in_the_overview() -> None:
    assert [part.name for part in parts(Settings())] == ["model", *PLATFORMS]


@pytest.mark.parametrize("name", BOTS)
def test_every_bot_has_tokens_a_form_and_examples_that_are_accepted(name: str) -> None:
    config = PLATFORMS[name]
    assert config.obtained_from
    assert find_tokens(name)
    assert all(token.form and token.looks_like for token in find_tokens(name))
    for dotted, entry in {
        f"platforms.{name}.allowed_users": config.example_user_id,
        "access.allowed_users": f"{name}:{config.example_user_id}",
        "access.allowed_chats": f"{name}@work:{config.example_chat_id}",
    }.items():
        key = find(dotted)
        assert key is not None
        assert key.check(entry, strict=False) == (entry,)


def test_a_list_of_one_platform_takes_no_id_of_another_form(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TELEGRAM_ALLOWED_USERS", "7,U012AB3CD")
    with pytest.raises(ConfigError, match="'U012AB3CD' is not a user id; to find it, ask @userinfobot"):
        load(home)


def test_conversations_on_local_platforms_do_not_end_by_themselves() -> None:
    assert {"socket=none", "web=none"} <= set(Settings().sessions.reset_exceptions)
