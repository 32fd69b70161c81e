"""What the page reads: complete, in order, and cheap however much was said elsewhere."""

from agent_core.conversation import ToolCall, assistant, tool_result
from gateway.messages import Sender, SessionKey, Text
from gateway.store import outbox, transcripts, turns, web_chats
from gateway.store.db.connection import Transaction
from tests.gateway.store.line import begin
from tests.gateway.store.rows import find_plans, inbound, take

KEY = SessionKey(platform="web", chat="abcdef0123456789")


def _exchange(tx: Transaction, question: str, answer: str) -> None:
    take(tx, inbound(question, key=KEY, sender=Sender(id="owner")))
    turn = begin(tx)
    call = ToolCall(id="c", name="clock", arguments="{}")
    transcripts.append(tx, turn.session_id, assistant(tool_calls=(call,)), turn_id=turn.id)
    transcripts.append(tx, turn.session_id, tool_result(call, "noon"), turn_id=turn.id)
    outbox.add(tx, turn.messages[-1].address, [Text(text=answer)], answers=["1"], turn_id=turn.id)
    turns.finish(tx, turn.id, turn.messages, turns.Outcome.ANSWERED)


def test_both_sides_and_the_tools_in_between(tx: Transaction) -> None:
    _exchange(tx, "what time is it?", "noon")
    said, replied = web_chats.timeline(tx, "web", KEY.chat, str(KEY))
    assert isinstance(said, web_chats.Said)
    assert isinstance(replied, web_chats.Replied)
    assert said.state == "done"
    assert [(tool.name, tool.result) for tool in replied.tools] == [("clock", "noon")]


def test_damage_to_a_row_is_not_the_end_of_the_chat(tx: Transaction) -> None:
    _exchange(tx, "what time is it?", "noon")
    tx.execute("UPDATE outbox SET answers = '['")
    tx.execute("UPDATE messages SET tool_calls = '[{' WHERE tool_calls <> ''")
    assert len(web_chats.timeline(tx, "web", KEY.chat, str(KEY))) == 2


def test_a_chat_is_listed_under_its_first_message_before_a_turn_has_begun(tx: Transaction) -> None:
    take(tx, inbound("what time\nis it?", key=KEY, sender=Sender(id="owner")))
    (chat,) = web_chats.chats(tx, "web")
    assert (chat.id, chat.title, chat.running) == (KEY.chat, "what time is it?", True)
    turn = begin(tx)
    assert [(one.title, one.running) for one in web_chats.chats(tx, "web")] == [("what time is it?", True)]
    turns.finish(tx, turn.id, turn.messages, turns.Outcome.FAILED)
    assert [(one.title, one.running) for one in web_chats.chats(tx, "web")] == [("what time is it?", False)]


def test_no_look_at_a_chat_reads_all_messages(tx: Transaction) -> None:
    _exchange(tx, "what time is it?", "noon")

    def look() -> None:
        web_chats.timeline(tx, "web", KEY.chat, str(KEY))
        web_chats.chats(tx, "web")
        web_chats.title(tx, str(KEY))

    scans = {step.split()[1] for step in find_plans(tx, look) if step.startswith("SCAN")}
    assert not scans & {"messages", "m", "sessions", "t"}
