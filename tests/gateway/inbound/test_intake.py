"""The only door in."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from gateway.changes import Changes
from gateway.errors import GatewayStopping, StoreUnavailable
from gateway.inbound.intake import Intake, IntakePolicy
from gateway.inbound.rate_limit import SenderLimits
from gateway.messages import Cursor, InboundMessage, Kind, Quote, Text
from gateway.policies.access import Rules
from gateway.policies.pairing import PairingLimits
from gateway.store import chats, inbox, pairing
from gateway.store.db.database import Database
from tests.gateway.scene import ACCOUNT, PacedModel, edit_of, inbound, locked, make_small, rows, running


class Door:
    """Lets in the user 42, and whoever else the rules name."""

    def __init__(
        self,
        db: Database,
        *,
        max_waiting: int = 20,
        rules: Rules | None = None,
        policy: IntakePolicy | None = None,
        limits: SenderLimits | None = None,
    ) -> None:
        self.wakes = 0
        self.delivery_wakes = 0
        changes = Changes()
        changes.subscribe("inbox", self._wake)
        changes.subscribe("outbox", self._wake_delivery)
        self.intake = Intake(
            db=db,
            rules=rules or Rules(allowed_users=frozenset({"42"})),
            policy=policy or IntakePolicy(max_waiting_per_session=max_waiting),
            limits=limits or SenderLimits(per_minute=0),
            changes=changes,
        )

    def _wake(self) -> None:
        self.wakes += 1

    def _wake_delivery(self) -> None:
        self.delivery_wakes += 1

    async def accept(self, *messages: InboundMessage, cursor: Cursor | None = None) -> None:
        await self.intake.accept(messages, cursor, account=ACCOUNT, local=False)


async def test_a_message_is_on_disk_when_it_is_accepted(db: Database) -> None:
    door = Door(db)
    await door.accept(inbound("hello"))
    assert await rows(db, "SELECT message_id, kind, state, session_key FROM inbox") == [
        ("1", "message", "ready", "pigeon:dm:home")
    ]
    assert door.wakes == 1


async def test_a_stranger_leaves_a_row_without_text_and_wakes_no_model(db: Database) -> None:
    model = PacedModel()
    small = make_small(db, model)
    small.intake.rules = Rules(pair_strangers=False)
    async with running(small):
        await small.intake.accept([inbound("let me in", sender="666")], None, account=ACCOUNT, local=False)
        model.let("hello")
        await small.say(inbound("hello", message_id="2"))
        assert await small.answer() == "re: hello"
    [(detail, inbox_id)] = await rows(db, "SELECT detail, inbox_id FROM trail WHERE event = 'refused'")
    assert json.loads(detail) == {
        "account": ACCOUNT,
        "chat": "home",
        "message": "1",
        "sender": "666",
        "reason": "not on an allowlist and not paired",
    }
    assert inbox_id is None
    assert model.asked.get_nowait() == "hello"
    assert model.asked.empty()
    assert await rows(db, "SELECT COUNT(*) FROM inbox WHERE sender_id = '666'") == [(0,)]
    assert await rows(db, "SELECT COUNT(*) FROM people WHERE name = 'Ada'") == [(1,)]


async def test_a_second_copy_is_taken_and_dropped(db: Database) -> None:
    door = Door(db)
    await door.accept(inbound("hello"))
    await door.accept(inbound("hello"), inbound("hello"))
    assert await rows(db, "SELECT COUNT(*) FROM inbox") == [(1,)]
    assert await rows(db, "SELECT COUNT(*) FROM trail WHERE event = 'accepted'") == [(1,)]


@pytest.mark.parametrize("other", [{"message_id": "2"}, {"chat": "office"}])
async def test_another_message_is_no_copy(db: Database, other: dict[str, str]) -> None:
    await Door(db).accept(inbound("hello"), inbound("hello", **other))  # type: ignore[arg-type]
    assert await rows(db, "SELECT COUNT(*) FROM inbox") == [(2,)]


async def test_an_edit_of_the_same_message_is_no_copy(db: Database) -> None:
    await Door(db).accept(inbound("helo"), replace(inbound("hello"), edited_ms=7))
    assert await rows(db, "SELECT COUNT(*) FROM inbox") == [(2,)]


async def test_a_page_and_its_cursor_are_one_commit(db: Database) -> None:
    door = Door(db)
    page = [inbound("one", message_id="1"), inbound("two", message_id="2"), inbound("spam", sender="666")]
    await door.accept(*page, cursor=Cursor(channel="updates", value="1002"))
    assert await rows(db, "SELECT message_id FROM inbox ORDER BY id") == [("1",), ("2",)]
    assert await db.read(lambda tx: chats.read_cursor(tx, ACCOUNT, "updates")) == "1002"
    await door.accept(cursor=Cursor(channel="updates", value="1003"))
    assert await db.read(lambda tx: chats.read_cursor(tx, ACCOUNT, "updates")) == "1003"


async def test_a_bug_leaves_the_whole_page_untaken(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    door = Door(db)
    page = [inbound("fine", message_id="1"), inbound("/stop", message_id="2")]
    monkeypatch.setattr(inbox, "read_waiting_commands", lambda *_: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        await door.accept(*page, cursor=Cursor(channel="updates", value="1002"))
    assert await rows(db, "SELECT COUNT(*) FROM inbox") == [(0,)]
    assert await db.read(lambda tx: chats.read_cursor(tx, ACCOUNT, "updates")) == ""


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("stop", "command"),
        (" Cancel\n", "command"),
        ("/new", "command"),
        ("/status@hermes_bot now", "command"),
        ("stop it", "message"),
        ("/etc/passwd holds what?", "message"),
        ("/ 2", "message"),
        ("see /help", "message"),
    ],
)
async def test_commands_and_stop_words_are_known_at_the_door(db: Database, text: str, kind: str) -> None:
    await Door(db).accept(inbound(text))
    assert await rows(db, "SELECT kind FROM inbox") == [(kind,)]


async def test_a_closed_door_takes_nothing(db: Database) -> None:
    door = Door(db)
    door.intake.closed = True
    with pytest.raises(GatewayStopping):
        await door.accept(inbound("hello"))
    assert await rows(db, "SELECT COUNT(*) FROM inbox") == [(0,)]


async def test_a_store_that_takes_nothing_is_passed_on_to_the_platform(db: Database) -> None:
    door = Door(db)
    with locked(db.path), pytest.raises(StoreUnavailable):
        await door.accept(inbound("hello"))
    await door.accept(inbound("hello"))
    assert await rows(db, "SELECT COUNT(*) FROM inbox") == [(1,)]


async def test_a_full_queue_refuses_politely_and_once(db: Database) -> None:
    door = Door(db, max_waiting=2)
    await door.accept(*(inbound(f"text {n}", message_id=str(n)) for n in range(5)), inbound("/status", message_id="9"))
    assert await rows(db, "SELECT state, outcome FROM inbox WHERE kind = 'message' ORDER BY id") == [
        ("ready", ""),
        ("ready", ""),
        *[("done", "queue full")] * 3,
    ]
    assert await rows(db, "SELECT kind, notify FROM outbox") == [("notice", 0)]
    assert await rows(db, "SELECT state FROM inbox WHERE kind = 'command'") == [("ready",)]


async def test_another_session_still_has_room(db: Database) -> None:
    door = Door(db, max_waiting=1)
    await door.accept(inbound("one"), inbound("two", message_id="2"), inbound("three", chat="office"))
    assert await rows(db, "SELECT chat, state FROM inbox ORDER BY id") == [
        ("home", "ready"),
        ("home", "done"),
        ("office", "ready"),
    ]


async def test_many_at_once_all_get_in(db: Database) -> None:
    door = Door(db, max_waiting=1000)
    await asyncio.gather(*(door.accept(inbound("x", message_id=str(n))) for n in range(200)))
    assert await rows(db, "SELECT COUNT(*) FROM inbox WHERE state = 'ready'") == [(200,)]


FORWARDED = Quote(how="forwarded from", author="Eve", text="")


async def test_a_command_that_somebody_passes_on_is_not_their_own(db: Database) -> None:
    await Door(db).accept(inbound(parts=(FORWARDED, Text(text="/stop"))))
    assert await rows(db, "SELECT kind FROM inbox") == [("message",)]


async def test_a_command_in_reply_to_somebody_is_ones_own(db: Database) -> None:
    await Door(db).accept(inbound(parts=(Quote(text="go on", author="Eve"), Text(text="/stop"))))
    assert await rows(db, "SELECT kind FROM inbox") == [("command",)]


async def test_a_forwarded_message_is_read_by_the_model_as_such(db: Database) -> None:
    model = PacedModel()
    said = "[forwarded from Eve]\n/stop"
    model.let(said)
    async with running(make_small(db, model)) as small:
        await small.say(inbound(parts=(FORWARDED, Text(text="/stop"))))
        assert await small.answer() == f"re: {said}"


async def test_an_edit_can_never_become_a_command(db: Database) -> None:
    door = Door(db)
    await door.accept(inbound("hello"))
    await door.accept(edit_of(inbound("/stop")))
    assert await rows(db, "SELECT kind, state FROM inbox ORDER BY id") == [("message", "ready")]
    assert await rows(db, "SELECT json_extract(parts, '$[0].text') FROM inbox") == [("hello",)]


async def test_a_stranger_is_told_a_code_once_and_then_nothing(db: Database) -> None:
    door = Door(db)
    await door.accept(inbound("hello?", sender="666"), inbound("anybody?", message_id="2", sender="666"))
    assert await rows(db, "SELECT topic, parts, reply_to FROM outbox") == [("pairing code", "[]", "1")]
    assert door.delivery_wakes == 1
    await door.accept(inbound("please", message_id="3", sender="666"))
    assert door.delivery_wakes == 1
    assert await rows(db, "SELECT COUNT(*) FROM trail WHERE event = 'refused'") == [(2,)]
    for table in ("inbox", "people", "identities"):
        assert await rows(db, f"SELECT COUNT(*) FROM {table}") == [(0,)], table


@pytest.mark.parametrize("kind", ["edit", "reaction", "button", "deletion"])
async def test_only_words_ask_to_be_let_in(db: Database, kind: Kind) -> None:
    await Door(db).accept(replace(inbound("hello?", sender="666"), kind=kind, about="1"))
    assert await rows(db, "SELECT COUNT(*) FROM outbox") == [(0,)]


async def test_nobody_asks_to_be_let_in_from_a_group(db: Database) -> None:
    await Door(db).accept(inbound("hello?", sender="666", kind="group"))
    assert await rows(db, "SELECT COUNT(*) FROM outbox") == [(0,)]


async def invited(db: Database) -> str:
    return await db.write(lambda tx: pairing.invite(tx, ACCOUNT, "member", PairingLimits(), by="test"))


async def test_somebody_inside_who_sends_an_invite_is_told_and_it_is_not_kept(db: Database) -> None:
    code = await invited(db)
    await Door(db).accept(inbound(code))
    assert await rows(db, "SELECT outcome FROM inbox") == [("an invite",)]
    assert await rows(db, "SELECT topic FROM outbox") == [("invite",)]


async def test_somebody_inside_has_no_more_guesses_at_invites_than_a_stranger(db: Database) -> None:
    code = await invited(db)
    door = Door(db)
    await door.accept(*(inbound("ABCD2345"[:7] + letter, message_id=letter) for letter in "23456"))
    assert await rows(db, "SELECT COUNT(*) FROM pairing_failures") == [(5,)]
    await door.accept(inbound(code, message_id="right"))
    assert await rows(db, "SELECT COUNT(*) FROM pairing_failures") == [(5,)]
    assert await rows(db, "SELECT outcome FROM inbox WHERE message_id = 'right'") == [("",)]
    assert await rows(db, "SELECT COUNT(*) FROM outbox") == [(0,)]


async def test_an_invite_is_looked_at_in_direct_messages_alone_and_in_time(db: Database) -> None:
    code = await invited(db)
    door = Door(db, limits=SenderLimits(per_minute=1))
    await door.accept(inbound(code, message_id="1", kind="group", chat="group"))
    await door.accept(inbound(code, message_id="2"))
    assert await rows(db, "SELECT outcome FROM inbox ORDER BY id") == [("",), ("too fast",)]
    assert await rows(db, "SELECT COUNT(*) FROM pairing_failures") == [(0,)]


async def test_a_guests_wrong_invite_is_one_miss(db: Database) -> None:
    await invited(db)
    door = Door(db, rules=Rules(allow_all_users=True))
    await door.accept(inbound("ABCD2345"))
    assert await rows(db, "SELECT COUNT(*) FROM pairing_failures") == [(1,)]


async def test_whoever_has_said_too_much_may_still_stop_it_all(db: Database) -> None:
    door = Door(db, limits=SenderLimits(per_minute=1))
    for number, text in enumerate(("dig", "and more", "/stop", "/stop ALL", "stop", "/status")):
        await door.accept(inbound(text, message_id=str(number)))
    outcomes = await rows(db, "SELECT outcome FROM inbox ORDER BY id")
    assert [outcome for (outcome,) in outcomes] == ["", "too fast", "", "", "stopping already", "too fast"]


@pytest.mark.parametrize("words", ["stop", "/stop all", "/stop {number}"])
async def test_a_flood_of_stops_is_one_stop(db: Database, words: str) -> None:
    door = Door(db, limits=SenderLimits(per_minute=1))
    await door.accept(*(inbound(words.format(number=number), message_id=str(number)) for number in range(100)))
    assert await rows(db, "SELECT outcome, COUNT(*) FROM inbox GROUP BY outcome ORDER BY outcome") == [
        ("", 1),
        ("stopping already", 99),
    ]
    assert await rows(db, "SELECT COUNT(*) FROM outbox") == [(0,)]


async def test_commands_of_one_chat_find_the_queue_full_too(db: Database) -> None:
    door = Door(db, max_waiting=3)
    await door.accept(*(inbound("/status", message_id=str(number)) for number in range(10)))
    assert await rows(db, "SELECT COUNT(*) FROM inbox WHERE state = 'ready'") == [(3,)]
    assert await rows(db, "SELECT COUNT(*) FROM outbox") == [(1,)]


NO_STRING: Any = None


@pytest.mark.parametrize(
    "bad",
    [
        inbound("bad", message_id=NO_STRING),
        inbound("bad", message_id="\ud800"),
        inbound("bad", message_id="3", name="half a \udfff pair"),
        inbound("bad", message_id="3", sender="\ud800"),
        inbound("bad", message_id="3", chat="\ud800"),
        inbound("bad", message_id="3", parts=(Text(text="\ud800"),)),
        inbound("bad", message_id="3", sent_ms=2**70),
        inbound("bad", message_id="3", sent_ms=10**400),
        replace(inbound("bad", message_id="3"), kind="button", about=NO_STRING),
    ],
    ids=lambda bad: ascii((bad.message_id, bad.sender.name, bad.key.chat, bad.kind)),
)
async def test_a_message_that_cannot_be_stored_is_skipped_and_its_neighbours_are_not(
    db: Database, bad: InboundMessage
) -> None:
    door = Door(db, rules=Rules(allow_all_users=True), limits=SenderLimits(per_minute=100))
    page = inbound("before"), bad, inbound("after", message_id="2")
    await door.accept(*page, cursor=Cursor(channel="updates", value="7"))
    await door.accept(bad, cursor=Cursor(channel="updates", value="8"))
    assert await rows(db, "SELECT message_id FROM inbox") == [("1",), ("2",)]
    assert await db.read(lambda tx: chats.read_cursor(tx, ACCOUNT, "updates")) == "8"
    refused = [json.loads(detail) for (detail,) in await rows(db, "SELECT detail FROM trail WHERE event = 'refused'")]
    assert [one["reason"].partition(":")[0] for one in refused] == ["cannot be stored"] * 2
    json.dumps(refused, ensure_ascii=False).encode()  # `hermes trace` can print them
    [(told,)] = await rows(db, "SELECT text FROM notices")
    assert "hermes trace refused" in told
