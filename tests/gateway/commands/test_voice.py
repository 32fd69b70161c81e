"""/voice: whether answers are spoken."""

import pytest

from gateway.commands.agent import demo_options
from gateway.commands.catalog import make_commands
from gateway.store.db.connection import Transaction
from tests.gateway.commands.test_choices import DM, GROUP, chosen, use


@pytest.mark.parametrize(
    ("text", "told", "voice"),
    [
        ("voice", "Voice: off. Answers come as text only.", ""),
        ("voice on", "Every answer comes as a voice message, too. This lasts until the next /new.", "on"),
        ("voice AUTO", "I answer voice messages with voice messages.", "auto"),
        ("voice off", "Answers come as text only.", "off"),
        ("voice loud", "Use /voice on, /voice off or /voice auto.", ""),
    ],
)
def test_a_conversation_chooses(tx: Transaction, text: str, told: str, voice: str) -> None:
    assert use(tx, text).startswith(told)
    assert chosen(tx).voice == voice
    assert use(tx, "voice").startswith(f"Voice: {voice or 'off'}.")


def test_guests_of_a_group_choose_nothing(tx: Transaction) -> None:
    assert "Only owners and members" in use(tx, "voice on", key=GROUP, role="guest")
    assert chosen(tx, GROUP).voice == ""


def test_where_nothing_speaks_it_says_what_to_do(tx: Transaction) -> None:
    from dataclasses import replace

    silent = make_commands(agent=replace(demo_options(), why_silent="nothing speaks: install espeak-ng"))
    assert use(tx, "voice on", key=DM, of=silent) == "I cannot speak here: nothing speaks: install espeak-ng."
