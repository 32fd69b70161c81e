"""Going back to an old conversation: by `/resume`, and by the button below a notice."""

import pytest

from agent_core.conversation import user
from gateway.commands.catalog import make_commands
from gateway.commands.registry import CommandCall, CommandReply
from gateway.messages import SessionKey
from gateway.store import sessions, transcripts, turns
from gateway.store.db.connection import Transaction
from tests.gateway.store.conftest import Clock
from tests.gateway.store.rows import KEY, inbound, take

OTHER = SessionKey(platform="telegram", kind="dm", chat="7")


def converse(tx: Transaction, clock: Clock, *titles: str, key: SessionKey = KEY) -> list[str]:
    """One conversation for each title, an hour apart; the last is the current one. Gives their ids."""
    ids = []
    for title in titles:
        sessions.end_current(tx, str(key), reason="new")
        clock.forward(hours=1)
        session = sessions.open_current(tx, key)
        transcripts.append(tx, session.id, user(title))
        sessions.set_title(tx, session.id, title)
        ids.append(session.id)
    return ids


def resume(tx: Transaction, name: str = "", *, key: SessionKey = KEY) -> CommandReply:
    return make_commands().run(tx, CommandCall(key=key, name="resume", arguments=name))


def current(tx: Transaction) -> str:
    session = sessions.find_current(tx, str(KEY))
    assert session is not None
    return session.id


def test_the_list_shows_the_last_few_with_their_age(tx: Transaction, clock: Clock) -> None:
    ids = converse(tx, clock, "one", "two", "three", "four", "five", "six", "now")
    converse(tx, clock, "elsewhere", "there", key=OTHER)
    reply = resume(tx)
    heading, *lines, hint = reply.text.splitlines()
    assert heading == "Conversations to go back to:"
    assert lines[0] == f"{ids[5]}  3 hours ago  six"
    assert [line.split()[-1] for line in lines] == ["six", "five", "four", "three", "two"]
    assert hint == "Send /resume and an id or words of the title."
    assert [(choice.label, choice.action) for choice in reply.choices[:1]] == [("six", f"continue:{ids[5]}")]
    assert all(len(choice.action.encode()) <= 64 for choice in reply.choices)


def test_with_nothing_to_go_back_to(tx: Transaction, clock: Clock) -> None:
    converse(tx, clock, "now")
    for name in ("", "anything"):
        assert resume(tx, name).text == "There is no old conversation in this chat."


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("id", 0),
        ("beginning", 0),
        ("boat", 0),
        ("BOAT  buy", 0),
        ("plan", 2),  # said exactly so; the other only contains it
        ("trip", None),
        ("nothing", None),
        ("%", None),
    ],
)
def test_found_by_id_and_by_words_of_the_title(tx: Transaction, clock: Clock, name: str, found: int | None) -> None:
    ids = converse(tx, clock, "Buy a boat", "Plan the trip", "Plan", "A trip to 東京", "now")
    reply = resume(tx, {"id": ids[0], "beginning": ids[0][:-2]}.get(name, name))
    assert current(tx) == (ids[4] if found is None else ids[found])
    if found is not None:
        assert reply.text.startswith("You are back in “")


def test_several_that_fit_are_offered(tx: Transaction, clock: Clock) -> None:
    converse(tx, clock, "A trip to Rome", "A trip to Bonn", "Lunch", "now")
    lines = resume(tx, "trip").text.splitlines()
    assert lines[0] == "Several conversations match “trip”."
    assert [line.split()[-1] for line in lines[1:-1]] == ["Bonn", "Rome"]


@pytest.mark.parametrize(
    ("name", "heading", "named"),
    [
        ("trp to rom", "No conversation matches “trp to rom”. Did you mean one of these?", ["Rome", "Bonn"]),
        ("lnch", "No conversation matches “lnch”. Did you mean one of these?", ["Lunch"]),
        ("boat", "No conversation matches “boat”. These exist:", ["Bonn", "Lunch", "Rome"]),
    ],
)
@pytest.mark.parametrize("command", ["resume", "sessions"])
def test_the_nearest_titles_are_named(
    tx: Transaction, clock: Clock, command: str, name: str, heading: str, named: list[str]
) -> None:
    converse(tx, clock, "A trip to Rome", "Lunch", "A trip to Bonn", "now")
    lines = make_commands().run(tx, CommandCall(key=KEY, name=command, arguments=name)).text.splitlines()
    assert lines[0] == heading
    assert [line.split()[-1] for line in lines[1:-1]] == named


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ["trp " * 20_000, "t" * 80_000])
def test_a_long_name_holds_nobody_up(tx: Transaction, clock: Clock, name: str) -> None:
    converse(tx, clock, *(f"A trip to {number} towns and back home again with all" for number in range(300)), "now")
    assert resume(tx, name).text.startswith("No conversation matches")


def test_another_chats_conversation_is_out_of_reach(tx: Transaction, clock: Clock) -> None:
    ids = converse(tx, clock, "secret", "now", key=OTHER)
    converse(tx, clock, "mine", "now")
    assert "No conversation matches" in resume(tx, ids[0]).text
    reply = make_commands().press(tx, CommandCall(key=KEY, name="continue", arguments=ids[0]))
    assert reply.text == "That conversation no longer exists."
    assert not reply.in_place  # the list is somebody else's, who still needs it
    session = sessions.find(tx, ids[0])
    assert session is not None
    assert session.ended_ms is not None


def test_the_button_goes_back_in_place_and_twice_does_no_harm(tx: Transaction, clock: Clock) -> None:
    ids = converse(tx, clock, "old", "now")
    call = CommandCall(key=KEY, name="continue", arguments=ids[0])
    reply = make_commands().press(tx, call)
    assert reply.in_place
    assert reply.text == "You are back in “old”, last used 1 hour ago. /resume takes you to the others."
    assert make_commands().press(tx, call).text == "You are in that conversation already."
    assert current(tx) == ids[0]
    assert [session.id for session in sessions.list_ended(tx, str(KEY), limit=9)] == [ids[1]]


@pytest.mark.parametrize("argument", ["", "2", str(KEY)])
def test_a_button_names_a_session_in_full(tx: Transaction, clock: Clock, argument: str) -> None:
    converse(tx, clock, "old", "now")
    reply = make_commands().press(tx, CommandCall(key=KEY, name="continue", arguments=argument))
    assert reply.text == "That conversation no longer exists."


def test_what_runs_in_the_other_conversation_is_stopped(tx: Transaction, clock: Clock) -> None:
    ids = converse(tx, clock, "old", "now")
    take(tx, inbound("dig"))
    turn = turns.begin(tx)
    assert turn is not None
    assert turn.session_id == ids[1]
    resume(tx, ids[0])
    assert turns.stop_requested(tx, turn.id)


def test_new_after_an_end_by_itself_leaves_nothing_to_tell(tx: Transaction, clock: Clock) -> None:
    converse(tx, clock, "old")
    sessions.end_current(tx, str(KEY), reason="idle")
    make_commands().run(tx, CommandCall(key=KEY, name="new"))
    assert sessions.find_unannounced_end(tx, sessions.open_current(tx, KEY).id) is None
