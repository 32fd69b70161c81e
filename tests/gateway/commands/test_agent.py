"""/verbose: how much is told of tools, in this conversation."""

import pytest

from gateway.commands.catalog import make_commands
from gateway.commands.registry import CommandCall
from gateway.messages import SessionKey
from gateway.store import sessions
from gateway.store.db.connection import Transaction

KEY = SessionKey(platform="pigeon", kind="dm", chat="home")


def use(tx: Transaction, arguments: str = "") -> str:
    return make_commands().run(tx, CommandCall(key=KEY, name="verbose", arguments=arguments)).text


def verbosity(tx: Transaction) -> str:
    return sessions.read_settings(tx, sessions.open_current(tx, KEY).id).verbosity


@pytest.mark.parametrize(
    ("arguments", "mode", "told"),
    [
        ("off", "off", "Tool calls are not shown."),
        ("new", "new", "A tool is shown once, and again after another was used."),
        ("ALL", "all", "Every tool call is shown."),
        ("verbose", "verbose", "Every tool call is shown with its result."),
        ("", "verbose", "Every tool call is shown with its result."),
    ],
)
def test_a_mode_is_chosen_for_this_conversation(tx: Transaction, arguments: str, mode: str, told: str) -> None:
    assert use(tx, arguments) == f"{told} This lasts until the next /new."
    assert verbosity(tx) == mode


def test_a_mode_that_does_not_exist_changes_nothing(tx: Transaction) -> None:
    use(tx, "all")
    assert use(tx, "loud") == "There is no such mode. Use /verbose off|new|all|verbose."
    assert verbosity(tx) == "all"


def test_a_guest_does_not_choose_for_all_who_speak_in_a_group(tx: Transaction) -> None:
    group = SessionKey(platform="pigeon", kind="group", chat="-1")
    for role, told in (
        ("guest", "Only owners and members can change this"),
        ("member", "Every tool call is shown"),
    ):
        call = CommandCall(key=group, name="verbose", role=role)  # type: ignore[arg-type]
        assert make_commands().run(tx, call).text.startswith(told)
        mode = sessions.read_settings(tx, sessions.open_current(tx, group).id).verbosity
        assert mode == ("verbose" if role == "member" else "")


def test_a_new_conversation_begins_as_usual(tx: Transaction) -> None:
    use(tx, "off")
    sessions.end_current(tx, str(KEY), reason="new")
    assert verbosity(tx) == ""


def test_at_the_terminal_there_is_nothing_to_choose(tx: Transaction) -> None:
    reply = make_commands().run(tx, CommandCall(key=KEY, name="verbose", place="cli"))
    assert reply.text == "/verbose works in chats, not in the terminal. /help lists what works here."
