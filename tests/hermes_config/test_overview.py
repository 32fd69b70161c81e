"""What the gateway says of itself when it starts."""

from hermes_config.overview import Part, parts
from hermes_config.settings import Settings


def part(name: str, settings: Settings, command: str = "hermes") -> Part:
    return next(one for one in parts(settings, command=command) if one.name == name)


def test_the_banner_names_the_bots() -> None:
    settings = Settings.model_validate(
        {"platforms": {"telegram": {"accounts": ("work",)}}, "secrets": {"telegram_bot_token": "1:first-token"}}
    )
    telegram = part("telegram", settings)
    assert (telegram.on, telegram.text) == (True, "a bot on Telegram: telegram, telegram@work")


def test_what_is_off_says_how_it_is_turned_on() -> None:
    slack = part("slack", Settings(), command=".venv/bin/hermes")
    assert not slack.on
    assert slack.text == "a bot on Slack; its tokens come from api.slack.com/apps"
    assert slack.switch == ".venv/bin/hermes config set SLACK_BOT_TOKEN"


def test_what_is_on_says_how_it_is_turned_off() -> None:
    web = part("web", Settings())
    assert web.on
    assert web.switch == "hermes config set platforms.web.enabled false"
