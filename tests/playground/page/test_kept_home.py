"""With a home that is kept, the next playground goes on where the last one ended: with the real gateway."""

import sys
from pathlib import Path

from tests.playground.page.scene import Scene, scene, until

HERMES = (sys.executable, "-m", "hermes_cli")


def heard(on: Scene, platform: str, words: str) -> list[str]:
    """What the bot has said to the owner that holds these words."""
    phone = on.on.phones[platform]
    messages = phone.messages(phone.owner, "dm")
    said = ["".join(one["text"] for one in message.words) for message in messages if message.by_bot]
    return [text for text in said if words in text]


async def test_whoever_spoke_before_is_answered_again_on_each_platform(tmp_path: Path) -> None:
    home = tmp_path / "kept"
    for question, answer in (("what is 6 * 7?", "= 42"), ("what is 6 * 8?", "= 48")):
        async with scene(command=HERMES, home=home) as on:
            await until(lambda: set(states(on)) == {"connected"} and len(states(on)) == 3, seconds=60)
            for phone in on.on.phones.values():
                phone.say(phone.owner, "dm", question)
            for platform in on.on.phones:
                await until(lambda: heard(on, platform, answer), seconds=60)  # noqa: B023


def states(on: Scene) -> list[str]:
    return [one["state"] for one in on.on.gateway.look()["platforms"].values()]
