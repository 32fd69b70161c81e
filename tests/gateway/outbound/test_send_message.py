"""Who may send where, and what becomes of it."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import pytest

from agent_core.conversation import Message, ToolCall, assistant, user
from agent_core.events import Emit
from gateway.changes import Changes
from gateway.clock import now_ms
from gateway.messages import InboundMessage, Sender, SessionKey, Text
from gateway.outbound.send_message import MAX_LISTED, Sending
from gateway.policies.access import Rules
from gateway.store import chats, inbox, members, people, sessions, transcripts, turns
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.store.turns import Turn
from tests.agent_core.scripted import ScriptedModel
from tests.gateway.scene import make_responder, rows
from tools.approval.gate import NobodyNeedsToBeAsked
from tools.base import Tool, ToolFailed
from tools.builtin.messaging import Target, messaging_tool

OWNER, MEMBER, OTHER, GUEST = "100", "200", "300", "400"
ACCOUNTS = ("discord", "slack", "telegram", "telegram@work")
RULES = Rules(
    owner_users=frozenset({f"telegram:{OWNER}"}),
    allowed_users=frozenset({f"telegram:{MEMBER}", f"telegram:{OTHER}", f"discord:{MEMBER}"}),
)


@dataclass
class Scene:
    db: Database
    sending: Sending
    woken: list[str] = field(default_factory=list)
    count: int = 0

    async def hear(
        self,
        sender: str,
        chat: str,
        *,
        role: str = "member",
        kind: str = "dm",
        platform: str = "telegram",
        account: str = "",
        thread: str = "",
        within: str = "",
        name: str = "",
        done: bool = True,
    ) -> None:
        """Somebody says something; `done`: it was answered long ago."""
        self.count += 1
        key = SessionKey(platform=platform, account=account, kind=kind, chat=chat, thread=thread, within=within)
        message = InboundMessage(
            key=key,
            message_id=str(self.count),
            sender=Sender(id=sender, name=name or f"P{sender}"),
            parts=(Text(text="hello"),),
            sent_ms=self.count,
        )

        def unit(tx: Transaction) -> None:
            person = people.recognise(tx, key.account_name, message.sender, role=role)
            row = inbox.insert(tx, message, person_id=person, role=role)
            assert row is not None
            if done:
                sessions.open_current(tx, key, display_name=message.sender.name)
                inbox.finish(tx, row, turns.Outcome.ANSWERED)

        await self.db.write(unit)

    async def turn(self, sender: str, chat: str, **options: str) -> Turn:
        """Somebody says something that is being answered."""
        await self.hear(sender, chat, done=False, **options)
        return await self.begin()

    async def begin(self) -> Turn:
        turn = await self.db.write(turns.begin)
        assert turn is not None
        return turn

    async def refusal(self, turn: Turn, to: str) -> str:
        with pytest.raises(ToolFailed) as refused:
            await self.sending.find(turn.session_id, to)
        return str(refused.value)

    async def queued(self) -> list[tuple[str, ...]]:
        return await rows(self.db, "SELECT account, chat, thread, parts FROM outbox ORDER BY id")


@pytest.fixture
def scene(db: Database) -> Scene:
    woken: list[str] = []
    changes = Changes()
    for account in ACCOUNTS:
        changes.subscribe("outbox", partial(woken.append, account), account=account)
    sending = Sending(db=db, rules=RULES, accounts=ACCOUNTS, age_limit_ms=5_000, changes=changes)
    return Scene(db=db, sending=sending, woken=woken)


def home(account: str, chat: str) -> Callable[[Transaction], None]:
    return lambda tx: chats.set_home(tx, account, chat)


async def test_a_message_is_a_row_of_its_own_that_rings_and_names_no_turn(scene: Scene) -> None:
    await scene.hear("7", "55", platform="discord", kind="channel")
    turn = await scene.turn(OWNER, OWNER, role="owner")
    target = await scene.sending.find(turn.session_id, "discord:55")
    assert target == Target(id="discord:55", name="a channel on Discord (discord:55)")
    before = now_ms()
    await scene.sending.send(turn.session_id, target, "Dinner!")
    [row] = await rows(
        scene.db,
        """SELECT account, chat, thread, reply_to, answers, kind, notify, state, turn_id, topic, parts,
                  expires_ms - created_ms FROM outbox""",
    )
    assert row[:6] == ("discord", "55", "", "", "[]", "answer")
    assert row[6:10] == (1, "ready", None, "message")
    assert "Dinner!" in row[10]
    assert row[11] == 5_000
    assert scene.woken == ["discord"]
    [(at_ms, detail)] = await rows(
        scene.db, "SELECT at_ms, detail FROM trail WHERE event = 'message_queued' AND turn_id = ?", turn.id
    )
    assert at_ms >= before
    assert '"row": 1' in detail
    assert "Dinner" not in detail
    assert "discord" not in detail


async def test_a_commit_that_was_made_and_reported_as_failed_sends_once(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scene.hear("7", "55", platform="discord", kind="channel")
    turn = await scene.turn(OWNER, OWNER, role="owner")
    write = scene.db.write_when_possible

    async def twice(unit: Callable[[Transaction], str]) -> str:
        await write(unit)
        return await write(unit)

    sending = replace(scene.sending, db=_Twice(twice))  # type: ignore[arg-type]
    target = Target(id="discord:55", name="")
    await sending.send(turn.session_id, target, "Dinner!")
    assert len(await scene.queued()) == 1
    await scene.sending.send(turn.session_id, target, "Dinner!")  # said twice on purpose
    assert len(await scene.queued()) == 2


@dataclass
class _Twice:
    write_when_possible: Callable[[Callable[[Transaction], str]], Awaitable[str]]


async def test_killed_between_the_row_and_its_result_it_is_not_sent_again_and_the_model_is_told(scene: Scene) -> None:
    await scene.hear("7", "55", platform="discord", kind="channel")
    turn = await scene.turn(OWNER, OWNER, role="owner")
    send = ToolCall(id="c1", name="send_message", arguments='{"text": "Dinner!", "to": "discord:55"}')

    def until_killed(tx: Transaction) -> None:
        for message in turn.messages:
            transcripts.append(tx, turn.session_id, user("tell them"), turn_id=turn.id, inbox_id=message.id)
        transcripts.append(tx, turn.session_id, assistant(tool_calls=(send,)), turn_id=turn.id)
        transcripts.mark_tool_started(tx, turn.id, send.id)

    await scene.db.write(until_killed)
    await scene.sending.send(turn.session_id, Target(id="discord:55", name=""), "Dinner!")
    [resumed] = await scene.db.write(turns.resume_all)
    model = ScriptedModel([assistant("I cannot tell whether it went out.")])
    tools = [messaging_tool(scene.sending)]
    responder = make_responder(scene.db, model, tools=tools, gate=lambda turn, emit: NobodyNeedsToBeAsked())
    await responder.respond(resumed)
    assert await rows(scene.db, "SELECT account FROM outbox ORDER BY id") == [("discord",), ("telegram",)]
    [(told, is_error)] = await rows(scene.db, "SELECT parts, is_error FROM messages WHERE tool_call_id = 'c1'")
    assert "restart" in told
    assert is_error


# An owner.


@pytest.mark.parametrize(
    ("to", "found"),
    [
        ("telegram:-1001", "telegram:-1001"),
        (" Telegram:-1001 ", "telegram:-1001"),
        ("telegram:-1001:77", "telegram:-1001:77"),
        ("telegram:-1001:78", ""),
        ("telegram:200", "telegram:200"),  # somebody's direct chat
        ("telegram:999", ""),
        ("telegram@work:5", "telegram@work:5"),
        ("telegram:5", ""),
        ("slack:C1", "slack:C1"),  # where only threads are known, the channel is
        ("slack:C1:17.5", "slack:C1:17.5"),
        ("discord:66", "discord:66"),  # opened by an owner, though nobody has spoken there
        ("discord:66:1", ""),
        ("matrix:1", ""),
        ("cli:1", ""),
        ("telegram:", ""),
        (":", ""),
        ("", ""),
    ],
)
async def test_an_owner_reaches_every_chat_in_which_we_have_been(scene: Scene, to: str, found: str) -> None:
    await scene.hear(OTHER, "-1001", kind="group", thread="77")
    await scene.hear(MEMBER, MEMBER)
    await scene.hear("9", "5", account="work")
    await scene.hear("U1", "C1", platform="slack", kind="channel", thread="17.5")
    await scene.hear("x", "1", platform="matrix")
    await scene.db.write(lambda tx: chats.allow(tx, "discord", "66", by="telegram:100"))
    turn = await scene.turn(OWNER, OWNER, role="owner")
    if found:
        assert (await scene.sending.find(turn.session_id, to)).id == found
    else:
        assert "There is no place" in await scene.refusal(turn, to)


async def test_a_chat_is_known_by_what_was_said_there_before_any_conversation(scene: Scene) -> None:
    await scene.hear("7", "55", platform="discord", kind="channel")
    await scene.db.write(lambda tx: tx.execute("DELETE FROM sessions"))
    turn = await scene.turn(OWNER, OWNER, role="owner")
    assert (await scene.sending.find(turn.session_id, "discord:55")).name == "a channel on Discord (discord:55)"


async def test_a_chat_that_was_closed_and_in_which_nobody_spoke_is_not_known(scene: Scene) -> None:
    await scene.db.write(lambda tx: chats.allow(tx, "discord", "66", by="x"))
    await scene.db.write(lambda tx: chats.disallow(tx, "discord", "66"))
    turn = await scene.turn(OWNER, OWNER, role="owner")
    assert "There is no place" in await scene.refusal(turn, "discord:66")


async def test_a_chat_is_known_by_its_conversation_when_its_messages_are_no_longer_kept(scene: Scene) -> None:
    await scene.hear("7", "55", platform="discord", name="Bea")
    await scene.db.write(lambda tx: tx.execute("DELETE FROM inbox"))
    turn = await scene.turn(OWNER, OWNER, role="owner")
    target = await scene.sending.find(turn.session_id, "discord:55")
    assert target.name == "a direct chat with Bea on Discord (discord:55)"


@pytest.mark.parametrize(
    ("homes", "to", "found"),
    [
        ({"discord": "55"}, "discord", "discord:55"),
        ({"discord": "55"}, "Home", "discord:55"),  # the only one
        ({"discord": "55", "slack": "C1"}, "home", ""),  # which one?
        ({"discord": "55", "telegram": "-1001"}, "home", "telegram:-1001"),  # that of the bot which is spoken to
        ({"discord": "55"}, "slack", ""),
        ({"telegram@work": "5"}, "telegram", "telegram@work:5"),
        ({"telegram@work": "5", "telegram": "-1001"}, "telegram", "telegram:-1001"),
        ({"telegram@work": "5", "telegram": "-1001"}, "telegram@work", "telegram@work:5"),
        ({"matrix": "1"}, "matrix", ""),  # not connected
        ({"matrix": "1"}, "home", ""),
    ],
)
async def test_a_home_is_found_by_its_platform(scene: Scene, homes: dict[str, str], to: str, found: str) -> None:
    for account, chat in homes.items():
        await scene.db.write(home(account, chat))
    turn = await scene.turn(OWNER, OWNER, role="owner")
    if found:
        assert (await scene.sending.find(turn.session_id, to)).id == found
    else:
        assert "There is no place" in await scene.refusal(turn, to)


async def test_the_chat_that_asks_is_known_as_such_and_another_thread_of_it_is_not(scene: Scene) -> None:
    await scene.hear(OWNER, "-1001", role="owner", kind="group", thread="77")
    turn = await scene.turn(OWNER, "-1001", role="owner", kind="group", thread="78")
    is_here = {
        to: (await scene.sending.find(turn.session_id, f"telegram:-1001{to}")).is_here for to in (":78", ":77", "")
    }
    assert is_here == {":78": True, ":77": False, "": False}
    with pytest.raises(ToolFailed, match="moved to that chat"):
        await scene.sending.send(turn.session_id, Target(id="telegram:-1001:78", name=""), "Hi")
    assert await scene.queued() == []


async def test_an_owner_is_told_what_there_is_by_name_and_bounded(scene: Scene) -> None:
    await scene.db.write(home("discord", "55"))
    await scene.hear(MEMBER, MEMBER, name="Bea [x]\nCarl")
    turn = await scene.turn(OWNER, OWNER, role="owner")
    refused = await scene.refusal(turn, "mars]\n[system")
    assert refused.startswith("There is no place 'mars) (system' that")
    assert "a chat on Discord, the home there (discord:55); " in refused
    assert "a direct chat with Bea (x) Carl on Telegram (telegram:200)" in refused
    assert "/sethome" in refused
    for number in range(MAX_LISTED + 5):
        await scene.hear(MEMBER, f"-{number}", kind="group")
    refused = await scene.refusal(turn, "mars")
    assert refused.count("on Telegram (") + refused.count("on Discord") == MAX_LISTED
    assert "; and 7 more." in refused  # with the home and Bea's, without the one that asks


async def test_where_others_read_along_an_owner_is_not_told_whose_direct_chats_there_are(scene: Scene) -> None:
    await scene.hear(MEMBER, MEMBER)
    await scene.hear(OTHER, "-1002", kind="group")
    turn = await scene.turn(OWNER, "-1001", role="owner", kind="group")
    refused = await scene.refusal(turn, "mars")
    assert "telegram:-1002" in refused
    assert "telegram:200" not in refused
    assert (await scene.sending.find(turn.session_id, "telegram:200")).id == "telegram:200"


# Everybody else.


async def test_a_member_reaches_where_they_may_speak_and_have_spoken(scene: Scene) -> None:
    await scene.hear(MEMBER, MEMBER)
    await scene.hear(MEMBER, "-1001", kind="group", thread="77")
    turn = await scene.turn(MEMBER, "-1002", kind="group")
    for to in ("telegram:200", "telegram:-1001", "telegram:-1001:77"):
        assert (await scene.sending.find(turn.session_id, to)).id == to


async def test_to_a_member_what_is_forbidden_and_what_does_not_exist_read_the_same(scene: Scene) -> None:
    await scene.hear(OTHER, OTHER)  # another's direct chat
    await scene.hear(OTHER, "-1001", kind="group", thread="77")  # a group in which they have not spoken
    await scene.hear(OWNER, OWNER, role="owner")
    await scene.hear(MEMBER, "-1002", kind="group", thread="1")
    await scene.hear(OTHER, "-1002", kind="group", thread="2")  # a thread in which they have not
    await scene.db.write(home("discord", "55"))
    await scene.db.write(lambda tx: chats.allow(tx, "slack", "C1", by="x"))
    turn = await scene.turn(MEMBER, MEMBER)
    unknown = await scene.refusal(turn, "telegram:999")
    forbidden = ("telegram:300", "telegram:-1001", "telegram:-1001:77", "telegram:100", "telegram:-1002:2", "slack:C1",
                 "discord:55", "discord", "home", "telegram", "slack", "mars")  # fmt: skip
    for to in forbidden:
        assert (await scene.refusal(turn, to)).replace(repr(to), repr("telegram:999")) == unknown
        with pytest.raises(ToolFailed):
            await scene.sending.send(turn.session_id, Target(id=to, name=""), "Hi")
    assert "a group on Telegram (telegram:-1002)" in unknown
    for not_theirs in ("300", "-1001", "telegram:100", "discord", "C1", "sethome"):
        assert not_theirs not in unknown
    assert await scene.queued() == []


async def test_a_member_reaches_a_home_in_which_they_have_spoken(scene: Scene) -> None:
    await scene.hear(MEMBER, "-1001", kind="group")
    await scene.db.write(home("telegram", "-1001"))
    turn = await scene.turn(MEMBER, MEMBER)
    assert (await scene.sending.find(turn.session_id, "home")).id == "telegram:-1001"


async def test_who_has_only_put_a_mark_on_something_has_not_spoken_there(scene: Scene) -> None:
    await scene.hear(MEMBER, "-1001", kind="group")
    await scene.db.write(lambda tx: tx.execute("UPDATE inbox SET kind = 'reaction'"))
    turn = await scene.turn(MEMBER, MEMBER)
    assert "There is no place" in await scene.refusal(turn, "telegram:-1001")


async def test_a_home_that_is_not_theirs_is_not_in_the_way_of_one_that_is(scene: Scene) -> None:
    await scene.hear(MEMBER, "55", platform="discord", kind="channel")
    await scene.hear(MEMBER, MEMBER)
    joined = (
        "UPDATE inbox SET person_id = (SELECT person_id FROM identities WHERE account = 'telegram' AND user_id = ?)"
    )
    await scene.db.write(lambda tx: tx.execute(joined, MEMBER))  # one person on both
    await scene.db.write(home("discord", "55"))
    await scene.db.write(home("telegram", "-1001"))
    turn = await scene.turn(MEMBER, MEMBER)
    assert (await scene.sending.find(turn.session_id, "home")).id == "discord:55"


async def test_a_member_is_not_told_of_places_on_what_is_not_connected(scene: Scene) -> None:
    await scene.hear(MEMBER, "-1001", kind="group")
    await scene.hear(MEMBER, "-1002", kind="group")
    turn = await scene.turn(MEMBER, MEMBER)
    assert "telegram:-1001" in await scene.refusal(turn, "mars")
    away = replace(scene.sending, accounts=("discord",))
    with pytest.raises(ToolFailed, match="None is available yet"):
        await away.find(turn.session_id, "telegram:-1001")


async def test_a_group_that_was_closed_is_none_of_a_guests_or_members_any_more(scene: Scene) -> None:
    await scene.db.write(lambda tx: members.admit(tx, "telegram", "500", "Eve", "member"))
    await scene.db.write(lambda tx: chats.allow(tx, "telegram", "-1001", by="x"))
    await scene.hear("500", "-1001", kind="group")
    turn = await scene.turn("500", "500")
    assert (await scene.sending.find(turn.session_id, "telegram:-1001")).id == "telegram:-1001"
    await scene.db.write(lambda tx: chats.disallow(tx, "telegram", "-1001"))
    assert "telegram:-1001 " not in await scene.refusal(turn, "telegram:-1001")


async def test_a_guest_reaches_nothing(scene: Scene) -> None:
    await scene.db.write(lambda tx: chats.allow(tx, "telegram", "-1001", by="x"))
    await scene.db.write(lambda tx: chats.allow(tx, "telegram", "-1002", by="x"))
    await scene.hear(GUEST, "-1002", kind="group", role="guest")
    turn = await scene.turn(GUEST, "-1001", kind="group", role="guest")
    assert "None is available yet." in await scene.refusal(turn, "telegram:-1002")


async def test_in_a_guests_turn_it_is_not_offered(scene: Scene) -> None:
    model, tool = OfferedModel(), messaging_tool(scene.sending)
    responder = make_responder(scene.db, model, tools=[tool])
    await scene.db.write(lambda tx: chats.allow(tx, "telegram", "-1001", by="x"))
    for sender, role in ((GUEST, "guest"), (MEMBER, "member"), (OWNER, "owner")):
        await responder.respond(await scene.turn(sender, "-1001", kind="group", role=role))
    assert model.offered == [[], ["send_message"], ["send_message"]]
    await scene.hear(MEMBER, "-1001", kind="group", done=False)
    await scene.hear(GUEST, "-1001", kind="group", role="guest", done=False)
    await responder.respond(await scene.begin())
    assert model.offered[3:] == [[]]


@dataclass
class OfferedModel:
    """Answers, and keeps the names of the tools it could have used."""

    name: str = "offered"
    offered: list[list[str]] = field(default_factory=list)

    async def reply(
        self, messages: Sequence[Message], tools: Sequence[Tool], emit: Emit, *, may_call: bool = True
    ) -> Message:
        self.offered.append([tool.name for tool in tools])
        return assistant("Hello.")


async def test_of_several_who_ask_together_each_must_be_allowed_to(scene: Scene) -> None:
    await scene.hear(MEMBER, "-1002", kind="group")
    await scene.hear(MEMBER, "-1003", kind="group")
    await scene.hear(OTHER, "-1003", kind="group")
    await scene.hear(MEMBER, "-1001", kind="group", done=False)
    await scene.hear(OTHER, "-1001", kind="group", done=False)
    await scene.hear(OWNER, "-1001", kind="group", role="owner", done=False)
    turn = await scene.begin()
    assert len(turn.asked) == 3
    assert (await scene.sending.find(turn.session_id, "telegram:-1003")).id == "telegram:-1003"
    refused = await scene.refusal(turn, "telegram:-1002")
    assert "-1002)" not in refused
    assert "sethome" not in refused  # an owner among them does not make it an owner's turn


# What changes while a human is asked.


async def test_who_is_shown_the_door_meanwhile_sends_nothing(scene: Scene) -> None:
    await scene.hear(MEMBER, "-1001", kind="group")
    turn = await scene.turn(MEMBER, MEMBER)
    target = await scene.sending.find(turn.session_id, "telegram:-1001")
    await scene.db.write(
        lambda tx: members.revoke(tx, "telegram", MEMBER, owner_users=(), allowed_users=RULES.allowed_users, by="x")
    )
    with pytest.raises(ToolFailed, match="There is no place"):
        await scene.sending.send(turn.session_id, target, "Hi")
    assert (await scene.queued(), scene.woken) == ([], [])


async def test_an_owner_who_is_one_no_longer_sends_as_what_they_are(scene: Scene) -> None:
    await scene.hear(OTHER, OTHER)
    turn = await scene.turn(MEMBER, MEMBER, role="owner")  # by the settings of then
    assert "There is no place" in await scene.refusal(turn, "telegram:300")
    was_member = await scene.turn(OWNER, OWNER, role="member")  # an owner since: not in this turn
    assert "There is no place" in await scene.refusal(was_member, "telegram:300")


async def test_a_turn_that_was_stopped_sends_nothing(scene: Scene) -> None:
    await scene.hear("7", "55", platform="discord", kind="channel")
    turn = await scene.turn(OWNER, OWNER, role="owner")
    target = await scene.sending.find(turn.session_id, "discord:55")
    await scene.db.write(lambda tx: turns.request_stop(tx, turn.session_key))
    with pytest.raises(ToolFailed, match="stopped"):
        await scene.sending.send(turn.session_id, target, "Hi")
    assert await scene.queued() == []


async def test_without_a_turn_nobody_asks(scene: Scene) -> None:
    with pytest.raises(ToolFailed, match="is over"):
        await scene.sending.find("no such session", "home")


async def test_whoever_reaches_us_locally_is_the_owner(scene: Scene) -> None:
    await scene.hear(OTHER, OTHER)
    turn = await scene.turn("", "w1", role="owner", platform="web", kind="")
    assert "There is no place" in await scene.refusal(turn, "telegram:300")
    local = replace(scene.sending, local_accounts=("web",))
    assert (await local.find(turn.session_id, "telegram:300")).id == "telegram:300"
