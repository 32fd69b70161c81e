"""What of a session a model is shown after it was shortened, step by step."""

import pytest

from agent_core.compaction import Summary
from agent_core.compactor import CompactionStep
from agent_core.conversation import ToolCall, assistant, tool_result, user
from gateway.store import compactions, sessions, transcripts
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.store.media import MediaFiles
from tests.gateway.store.exchange import exchange
from tests.gateway.store.rows import ANN, KEY
from tests.gateway.store.test_erase import BOB, CANARY, GROUP, files, forget_ann

__all__ = ["files"]


@pytest.fixture
def session(tx: Transaction) -> str:
    session_id = sessions.open_current(tx, KEY).id
    for number in range(10):
        call = ToolCall(id=f"call_{number}", name="dig", arguments="{}")
        for message in (
            user(f"question {number}"),
            assistant(tool_calls=(call,)),
            tool_result(call, f"gold {number}"),
            assistant(f"answer {number}"),
        ):
            transcripts.append(tx, session_id, message)
    return session_id


def step(
    covers: int, *, head: int = 0, pinned: tuple[int, ...] = (), before: int = 100, after: int = 10
) -> CompactionStep:
    summary = Summary(text=f"up to {covers}", messages=covers)
    return CompactionStep(
        summary=summary, head=head, covers=covers, pinned=pinned, tokens_before=before, tokens_after=after
    )


def texts(tx: Transaction, session_id: str) -> list[str]:
    return [message.text.splitlines()[-1] if message.text else "" for message in read(tx, session_id).messages]


def read(tx: Transaction, session_id: str) -> compactions.History:
    return compactions.read_history(tx, session_id)


def test_head_summary_and_rest_are_shown_and_steps_follow_each_other(tx: Transaction, session: str) -> None:
    at = compactions.append(tx, session, read(tx, session).boundary, step(9, head=3))
    assert texts(tx, session)[:6] == ["question 0", "", "gold 0", "answer 0", "up to 9", "question 3"]
    assert read(tx, session).lead == 5
    compactions.append(tx, session, at, step(6))
    shown = texts(tx, session)
    assert shown[4:6] == ["up to 6", "question 5"]
    assert len(shown) == 5 + 5 * 4


def test_pinned_messages_stay_until_a_later_step_covers_them(tx: Transaction, session: str) -> None:
    at = compactions.append(tx, session, read(tx, session).boundary, step(28, pinned=(27,)))
    assert texts(tx, session) == ["up to 28", "question 9", "", "gold 9", "answer 9"]
    compactions.append(tx, session, at, step(2))
    assert texts(tx, session) == ["up to 2", "answer 9"]


def test_new_messages_follow_the_summary(tx: Transaction, session: str) -> None:
    compactions.append(tx, session, read(tx, session).boundary, step(30))
    assert texts(tx, session) == ["up to 30"]
    transcripts.append(tx, session, user("and now?"))
    assert texts(tx, session) == ["up to 30", "and now?"]


def test_a_stub_is_shown_in_place_of_its_result_which_stays(tx: Transaction, session: str) -> None:
    call = ToolCall(id="call_3", name="dig", arguments="{}")
    compactions.replace_results(tx, session, 0, {"call_3": tool_result(call, "see the file")})
    assert "see the file" in texts(tx, session)
    assert "gold 3" not in texts(tx, session)
    assert "gold 3" in [entry.message.text for entry in transcripts.entries(tx, session)]


def test_the_count_holds_until_the_conversation_is_shortened(tx: Transaction, session: str) -> None:
    compactions.note_count(tx, session, 1_234)
    transcripts.append(tx, session, user("uncounted"))
    assert (read(tx, session).counted, read(tx, session).counted_tokens) == (40, 1_234)
    compactions.append(tx, session, read(tx, session).boundary, step(9))
    assert (read(tx, session).counted, read(tx, session).counted_tokens) == (0, 0)


def test_a_compaction_that_saved_too_little_is_remembered(tx: Transaction, session: str) -> None:
    compactions.note_size(tx, session, read(tx, session).boundary, before=100, after=90)
    assert read(tx, session).stuck_tokens == 90
    assert len(texts(tx, session)) == 40
    compactions.append(tx, session, read(tx, session).boundary, step(9, before=120, after=30))
    assert read(tx, session).stuck_tokens == 0


def test_only_a_bounded_part_of_an_old_long_session_is_loaded(tx: Transaction, session: str) -> None:
    history = compactions.read_history(tx, session, limit=10)
    assert history.messages[0].text == "question 8"
    assert not history.is_whole


async def test_the_summary_of_a_group_goes_with_whoever_spoke_there(db: Database, files: MediaFiles) -> None:
    def fill(tx: Transaction) -> str:
        exchange(tx, "Bob asks", "to Bob", key=GROUP, sender=BOB)
        turn = exchange(tx, f"{CANARY} asks", "to Ann", key=GROUP, sender=ANN)
        at = compactions.read_history(tx, turn.session_id).boundary
        wanted = CompactionStep(summary=Summary(text=f"Ann said {CANARY}"), covers=5)
        compactions.append(tx, turn.session_id, at, wanted)
        return turn.session_id

    session_id = await db.write(fill)
    await forget_ann(db, files)
    assert await db.read(lambda tx: compactions.count(tx, session_id)) == 0
    assert await db.read(lambda tx: texts(tx, session_id)) == [
        *("Bob asks", "", "done", "to Bob", "[erased]", "", "done", "to Ann"),
    ]
