"""What was said: shown, searched, saved, asked again, taken back and continued in a copy."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from agent_core.compaction import Summary
from agent_core.compactor import CompactionStep
from agent_core.conversation import Message, assistant
from agent_core.events import Emit
from gateway.commands.catalog import make_commands
from gateway.commands.history import TranscriptFiles
from gateway.commands.registry import CommandCall
from gateway.messages import InboundMessage, Media, SessionKey
from gateway.store import compactions, sessions, transcripts
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.store.media import MediaFiles
from tests.gateway.scene import PacedModel, Small, inbound, make_small, rows, running
from tests.gateway.store.conftest import Clock
from tools.base import Tool

KEY = SessionKey(platform="pigeon", kind="dm", chat="home")


class Diary:
    """Answers at once, and remembers what it was given."""

    name = "diary"

    def __init__(self) -> None:
        self.given: list[list[str]] = []

    async def reply(
        self, messages: Sequence[Message], tools: Sequence[Tool], emit: Emit, *, may_call: bool = True
    ) -> Message:
        self.given.append([f"{message.role}: {message.text}" for message in messages])
        return assistant(f"{messages[-1].text}? Done, {len(self.given)}.")


class Talk:
    """Somebody who says one thing after another."""

    def __init__(self, small: Small) -> None:
        self.small = small
        self.said = 0

    async def say(self, text: str, **options: str) -> str:
        await self.send(text, **options)
        return await self.small.answer()

    async def send(self, text: str, **options: str) -> None:
        self.said += 1
        await self.small.say(inbound(text, message_id=str(self.said), sent_ms=self.said, **options))  # type: ignore[arg-type]

    async def press(self, action: str) -> str:
        self.said += 1
        press = inbound(action, message_id=f"press {self.said}", sent_ms=self.said)
        await self.small.say(_as_button(press))
        return await self.small.answer()


def _as_button(message: InboundMessage) -> InboundMessage:
    from dataclasses import replace

    return replace(message, kind="button", about="receipt 1")


def use(tx: Transaction, name: str, arguments: str = "", place: str = "chat") -> str:
    call = CommandCall(key=KEY, name=name, arguments=arguments, place=place)  # type: ignore[arg-type]
    return make_commands().run(tx, call).text


@pytest.mark.parametrize("name", ["retry", "undo", "branch"])
def test_with_nothing_said_there_is_nothing_to_do(tx: Transaction, name: str) -> None:
    nothing = f"Nothing has been said in this conversation yet. There is nothing to {name}."
    assert use(tx, name) == nothing
    sessions.open_current(tx, KEY)
    assert use(tx, name) == nothing


def test_an_empty_conversation_has_no_history_and_no_file(tx: Transaction) -> None:
    assert use(tx, "history") == "Nothing has been said in this conversation yet."
    assert use(tx, "save") == "Nothing has been said in this conversation yet. There is nothing to save."


async def test_retry_takes_the_answer_away_and_asks_the_same_again(db: Database) -> None:
    diary = Diary()
    async with running(make_small(db, diary)) as small:
        talk = Talk(small)
        await talk.say("one")
        await talk.say("two")
        assert await talk.say("/retry") == "two? Done, 3."
        assert small.platform.sent[-1].address.reply_to == "3"  # the answer belongs to the /retry
        assert await talk.say("/retry") == "two? Done, 4."
    assert diary.given[-1] == ["user: one", "assistant: one? Done, 1.", "user: two"]
    assert await rows(db, "SELECT COUNT(*) FROM undone") == [(4,)]


async def test_retry_and_undo_wait_for_the_running_turn(db: Database) -> None:
    model = PacedModel()
    async with running(make_small(db, model)) as small:
        talk = Talk(small)
        await talk.send("slow")
        await model.asked.get()
        for name in ("retry", "undo", "branch"):
            assert await talk.say(f"/{name}") == (
                f"I am still working on your last message. Wait for the answer, or send /stop before /{name}."
            )
        model.let("slow")
        assert await small.answer() == "re: slow"


async def test_in_a_group_only_who_asked_can_retry(db: Database) -> None:
    async with running(make_small(db, Diary())) as small:
        talk = Talk(small)
        group = {"chat": "-1", "kind": "group"}
        await talk.say("two plus two", **group)
        assert await talk.say("/retry", sender="43", name="Bob", **group) == (
            "The last request was made by Ada. Only they can retry it."
        )
        assert await talk.say("/retry", **group) == "Ada:\ntwo plus two? Done, 2."


async def test_undo_asks_first_and_the_model_forgets_only_after_the_button(db: Database) -> None:
    diary = Diary()
    async with running(make_small(db, diary)) as small:
        talk = Talk(small)
        await talk.say("keep this")
        await talk.say("forget this")
        question = await talk.say("/undo")
        assert question.splitlines() == [
            "Remove the last exchange from this conversation?",
            "- You: “forget this”",
            "- Hermes: “forget this? Done, 2.”",
            "",
            "I will forget it; search still finds it. Files I changed and messages I sent stay as they are.",
        ]
        remove, keep = small.platform.sent[-1].choices
        assert (remove.label, keep.label) == ("Remove it", "Keep it")
        assert await talk.press(keep.action) == "The last exchange stays."
        assert (await talk.press(remove.action)).startswith("Removed:\n- You: “forget this”")
        assert small.platform.sent[-1].edits  # in the place of the question
        assert await talk.press(remove.action) == (
            "More was said since then. Send /undo again to remove what is last now."
        )
        await talk.say("now?")
        assert "(undone): “forget this”" in await talk.say("/history")
        assert "forget this" in await talk.say("/search forget")
    assert diary.given[-1] == ["user: keep this", "assistant: keep this? Done, 1.", "user: now?"]


async def test_undo_yes_goes_back_one_exchange_after_the_other(db: Database) -> None:
    async with running(make_small(db, Diary())) as small:
        talk = Talk(small)
        await talk.say("one")
        await talk.say("two")
        assert "“two”" in await talk.say("/undo yes")
        assert "“one”" in await talk.say("/undo yes")
        assert "nothing to undo" in await talk.say("/undo yes")
        assert await talk.say("/undo now") == (
            "Nothing has been said in this conversation yet. There is nothing to undo."
        )
        await talk.say("three")
        assert await talk.say("/undo now") == (
            "Use /undo, or /undo yes to remove the last exchange without being asked."
        )


async def test_a_branch_has_everything_so_far_and_the_original_is_left_as_it_was(db: Database) -> None:
    diary = Diary()
    async with running(make_small(db, diary)) as small:
        talk = Talk(small)
        await talk.say("plan a trip")
        await talk.say("/personality concise")
        told = await talk.say("/branch by train")
        [(original, branch)] = await rows(
            db, "SELECT parent_id, id FROM sessions WHERE ended_ms IS NULL AND parent_id IS NOT NULL"
        )
        assert told == (
            f"You are now in a copy of this conversation, “by train”. Back to the original: /resume {original}"
        )
        await talk.say("cheaper")
        assert diary.given[-1] == ["user: plan a trip", "assistant: plan a trip? Done, 1.", "user: cheaper"]
        assert await db.read(lambda tx: sessions.read_settings(tx, branch).personality) == "concise"
        assert (await talk.say("/search trip")).count("“plan a trip”") == 1  # not once more for the copy
        assert "“cheaper”" in await talk.say("/undo yes")
        assert "“plan a trip”" in await talk.say("/undo yes")
        assert (await talk.say(f"/resume {original}")).startswith("You are back in “plan a trip”")
        await talk.say("by car")
    assert diary.given[-1] == ["user: plan a trip", "assistant: plan a trip? Done, 1.", "user: by car"]


async def test_history_shows_who_said_what(db: Database) -> None:
    async with running(make_small(db, Diary())) as small:
        talk = Talk(small)
        for number in range(1, 4):
            await talk.say(f"message {number}")
        assert await talk.say("/history 2") == (
            "- **You**, just now: “message 3”\n- **Hermes**, just now: “message 3? Done, 3.”"
        )
        assert len((await talk.say("/history")).splitlines()) == 6
        for wrong in ("0", "51", "many", "-1"):
            assert await talk.say(f"/history {wrong}") == "Use /history or /history NUMBER, from 1 to 50."


async def test_search_finds_what_one_may_read_with_its_neighbours(db: Database) -> None:
    async with running(make_small(db, Diary())) as small:
        talk = Talk(small)
        group = {"chat": "-1", "kind": "group"}
        await talk.say("the key is under the mat", chat="other", sender="43", name="Bob")
        await talk.say("the roses need water")
        await talk.say("we meet at noon", **group)
        assert await talk.say("/search") == "Say what to search for: /search WORDS"
        [(session,)] = await rows(db, "SELECT id FROM sessions WHERE key = 'pigeon:dm:home'")
        found = (await talk.say("/search roses")).splitlines()
        assert found[0].endswith(f"({session})")
        assert found[1:3] == ["  - you: “the roses need water”", "  - Hermes: “the roses need water? Done, 2.”"]
        assert found[-1] == "Go back to a conversation of this chat with /resume and its id."
        for words, options in (("mat", group), ("roses", group), ("zebra", {})):
            told = await talk.say(f"/search {words}", **options)
            assert told == f"Nothing found for “{words}”. Try fewer or other words."
        assert "a member: " in await talk.say("/search noon", **group)


async def test_a_conversation_is_saved_as_a_file_without_secrets(db: Database, tmp_path: Path) -> None:
    files = MediaFiles({"file": tmp_path / "cache"})

    def store(name: str, content: bytes) -> Media:
        return Media(kind="file", name=name, size_bytes=len(content), sha256=files.save("file", content))

    saving = TranscriptFiles(clean=lambda text: text.replace("hunter2", "[hidden]"), store=store)
    async with running(make_small(db, Diary(), commands=make_commands(files=saving))) as small:
        talk = Talk(small)
        await talk.say("my password is hunter2")
        [(session,)] = await rows(db, "SELECT id FROM sessions")
        for asked, form in (("/save", "md"), ("/save json", "json"), ("/save JSON", "json")):
            await talk.send(asked)
            assert "This conversation as a file, 2 messages:" in await small.answer()
            [_, file] = small.platform.sent[-1].parts
            assert isinstance(file, Media)
            assert file.name == f"hermes-{session}.{form}"
            content = (files.load(file) or b"").decode()
            assert "my password is [hidden]" in content
            assert "hunter2" not in content
        assert [one["role"] for one in json.loads(content)["messages"]] == ["user", "assistant"]
        assert await talk.say("/save docx") == "There is no format “docx”. Use /save md|json."
    assert await rows(db, "SELECT COUNT(*) FROM media") == [(2,)]


def test_where_no_file_can_be_sent_it_says_how_to_read_it(tx: Transaction) -> None:
    session = sessions.open_current(tx, KEY)
    transcripts.append(tx, session.id, assistant("hello"))
    assert use(tx, "save") == f"No file can be sent here. On the machine: hermes sessions show {session.id}"


@pytest.mark.parametrize("place", ["chat", "cli"])
def test_a_title_is_shown_and_changed(tx: Transaction, place: str) -> None:
    assert use(tx, "title", "x", place) == "No conversation is open. Send a message first, then give it a title."
    session = sessions.open_current(tx, KEY)
    assert use(tx, "title", "", place) == "This conversation has no title yet. Change that with /title TEXT."
    assert use(tx, "title", "Garden plans", place) == "This conversation is now called “Garden plans”."
    assert use(tx, "title", "", place) == "This conversation is called “Garden plans”. Change that with /title TEXT."
    sessions.set_title(tx, session.id, "from the first message")
    assert use(tx, "sessions", "", place).startswith(f"Current: Garden plans ({session.id}).")


def test_sessions_lists_the_chat_and_finds_by_title(tx: Transaction, clock: Clock) -> None:
    assert use(tx, "sessions") == "This chat has no conversations yet."
    for title in ("roses", "tulips"):
        session = sessions.open_current(tx, KEY)
        transcripts.append(tx, session.id, assistant("hello"))
        sessions.set_title(tx, session.id, title)
        use(tx, "new")
        clock.forward(hours=1)
    listed = use(tx, "sessions")
    assert listed.startswith("No conversation is open now.\nEarlier ones, most recent first:\n")
    assert listed.index("tulips") < listed.index("roses")
    assert use(tx, "sessions", "rose").startswith("Earlier conversations that match “rose”:\n")
    assert use(tx, "sessions", "daisies").startswith("No conversation matches “daisies”. These exist:\n")


async def test_a_branch_of_a_summarised_conversation_begins_with_the_summary(db: Database) -> None:
    diary = Diary()
    async with running(make_small(db, diary)) as small:
        talk = Talk(small)
        for text in ("one", "two", "three"):
            await talk.say(text)
        [(session, first, third)] = await rows(
            db, "SELECT session_id, MIN(id), MAX(id) - 1 FROM messages WHERE role IN ('user', 'assistant')"
        )
        step = CompactionStep(
            summary=Summary(text="GOAL"), head=0, covers=4, pinned=(), tokens_before=1_000, tokens_after=10
        )
        await db.write(lambda tx: compactions.append(tx, session, compactions.Boundary(upto=first), step))
        original = await db.read(lambda tx: compactions.read_history(tx, session).messages)
        await talk.say("/branch")
        [(branch,)] = await rows(db, "SELECT id FROM sessions WHERE ended_ms IS NULL")
        assert await db.read(lambda tx: compactions.read_history(tx, branch).messages) == original
        assert "“three”" in await talk.say("/undo yes")
        assert await talk.say("/undo yes") == (
            "The last exchange is already part of a summary, so it cannot be taken away."
        )
        assert third > first
