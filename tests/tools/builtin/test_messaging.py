import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from tools.approval.gate import NobodyNeedsToBeAsked, NotApproved, Question
from tools.base import BadArguments, ToolContext, ToolFailed
from tools.builtin.messaging import MAX_TEXT_CHARS, NOWHERE_TO_SEND, Target, messaging_tool
from tools.loading import load_builtin
from tools.provenance import Passage, Provenance
from tools.shell_guard.granting import Rule, covers
from tools.toolsets import select, why_not

ROSES = Target(id="discord:7", name="a channel on Discord (discord:7)")
HERE = Target(id="telegram:1", name="a direct chat on Telegram (telegram:1)", is_here=True)


@dataclass
class Sender:
    places: dict[str, Target] = field(default_factory=lambda: {"discord": ROSES, "discord:7": ROSES, "home": HERE})
    sent: list[tuple[str, str, str]] = field(default_factory=list)

    async def find(self, task_id: str, to: str) -> Target:
        by_id = {place.id: place for place in (ROSES, *self.places.values())}
        if to not in (known := by_id | self.places):
            raise ToolFailed(f"There is no place {to!r}.")
        return known[to]

    async def send(self, task_id: str, target: Target, text: str) -> None:
        self.sent.append((task_id, target.id, text))


@dataclass
class Asked:
    """A human who says yes, or no."""

    yes: bool = True
    questions: list[Question] = field(default_factory=list)
    used: list[str] = field(default_factory=list)

    async def ask(self, question: Question, call_id: str) -> None:
        self.questions.append(question)
        if not self.yes:
            raise NotApproved("no")

    async def use(self, question: Question, call_id: str) -> None:
        if question.binding not in {one.binding for one in self.questions}:
            raise NotApproved("it is not what was approved")
        self.used.append(question.binding)


async def call(sender: Any, human: Any, *, heard: Provenance | None = None, **arguments: Any) -> Any:
    """As the loop does it: first whether it may begin, then the call."""
    tool = messaging_tool(sender)
    context = ToolContext(task_id="one", call_id="c1", gate=human, heard=lambda: heard or Provenance())
    await tool.admit(json.dumps(arguments), context)
    return await tool.run(json.dumps(arguments), context)


async def test_it_asks_with_all_of_the_text_and_says_that_it_is_queued_not_delivered() -> None:
    sender, human = Sender(), Asked()
    told = await call(sender, human, text="  Dinner is ready.\n", to="discord")
    [question] = human.questions
    assert question.tool == "send_message"
    assert question.action == "send to a channel on Discord (discord:7):\nDinner is ready."
    assert question.where == ""
    assert question.reasons == ("it goes to another chat",)
    assert question.rules == ("send-message discord:7",)
    assert question.decider == "owner"
    assert not question.is_blocked
    assert human.used == [question.binding]
    assert sender.sent == [("one", "discord:7", "Dinner is ready.")]
    assert told["status"] == "queued"
    assert told["to"] == "discord:7"
    assert ROSES.name in told["note"]
    assert "has not been delivered yet" in told["note"]


async def test_without_a_yes_nothing_is_sent() -> None:
    sender = Sender()
    with pytest.raises(NotApproved):
        await call(sender, Asked(yes=False), text="Hi", to="discord")
    tool = messaging_tool(sender)
    with pytest.raises(NotApproved):  # nor when somebody runs it without asking first
        await tool.run(json.dumps({"text": "Hi", "to": "discord"}), ToolContext(task_id="one"))
    assert sender.sent == []


async def test_what_was_heard_from_outside_is_named_once_each_and_bounded() -> None:
    outside = tuple(Passage(origin=one, text="x") for one in ("file", "file", "web", "tool:terminal", "tool:x"))
    human = Asked()
    await call(Sender(), human, heard=Provenance(outside=outside[:2]), text="Hi", to="discord")
    await call(Sender(), human, heard=Provenance(outside=outside), text="Hi", to="discord")
    assert [one.reasons[1:] for one in human.questions] == [
        ("it comes after I have read a file",),
        ("it comes after I have read a file, the web, the output of terminal and more",),
    ]


async def test_a_yes_is_for_this_place_and_this_text_alone() -> None:
    human, sender = Asked(), Sender()
    await call(sender, human, text="Hi", to="discord")
    await call(sender, human, text="Hi", to="discord:7")  # the same place by another name
    await call(sender, human, text="Ho", to="discord")
    sender.places["discord"] = Target(id="discord:8", name="another")
    await call(sender, human, text="Hi", to="discord")
    first, same, other_text, other_place = (one.binding for one in human.questions)
    assert first == same
    assert len({first, other_text, other_place}) == 3


async def test_a_home_that_moves_in_the_moment_the_yes_is_taken_gets_nothing() -> None:
    sender = Sender()

    class Slow(Asked):
        async def use(self, question: Question, call_id: str) -> None:
            await super().use(question, call_id)
            sender.places["discord"] = Target(id="discord:8", name="another")

    told = await call(sender, Slow(), text="Hi", to="discord")
    assert sender.sent == [("one", "discord:7", "Hi")]
    assert told["to"] == "discord:7"


async def test_a_home_that_moved_while_a_human_was_asked_is_not_sent_to() -> None:
    human, sender = Asked(), Sender()
    tool = messaging_tool(sender)
    context = ToolContext(task_id="one", gate=human)
    arguments = json.dumps({"text": "Hi", "to": "discord"})
    await tool.admit(arguments, context)
    sender.places["discord"] = Target(id="discord:8", name="another")
    with pytest.raises(NotApproved):
        await tool.run(arguments, context)
    assert sender.sent == []


async def test_to_its_own_chat_it_need_not_send_and_nobody_is_asked() -> None:
    human, sender = Asked(), Sender()
    for gate in (human, NobodyNeedsToBeAsked()):
        with pytest.raises(ToolFailed, match="Just answer"):
            await call(sender, gate, text="Hi", to="home")
    assert (human.questions, sender.sent) == ([], [])


@pytest.mark.parametrize(
    ("text", "words"),
    [(" \n", "text is missing"), ("x" * (MAX_TEXT_CHARS + 1), "limit is 8,000")],
)
async def test_a_text_that_cannot_go_is_not_asked_about(text: str, words: str) -> None:
    human = Asked()
    with pytest.raises(ToolFailed, match=words):
        await call(Sender(), human, text=text, to="discord")
    assert human.questions == []
    await call(Sender(), human, text="x" * MAX_TEXT_CHARS, to="discord")


@pytest.mark.parametrize("arguments", [{"text": "Hi"}, {"text": 5, "to": "discord"}, {"text": "Hi", "to": ["discord"]}])
async def test_wrong_arguments_ask_nobody_and_send_nothing(arguments: dict[str, Any]) -> None:
    human, sender = Asked(), Sender()
    with pytest.raises(BadArguments):
        await call(sender, human, **arguments)
    assert (human.questions, sender.sent) == ([], [])


async def test_an_unknown_place_is_not_asked_about() -> None:
    human = Asked()
    with pytest.raises(ToolFailed, match="no place 'mars'"):
        await call(Sender(), human, text="Hi", to="mars")
    assert human.questions == []


async def test_a_conversation_that_is_in_no_chat_has_nowhere_to_send_to() -> None:
    with pytest.raises(ToolFailed, match="this conversation is not in one"):
        await call(NOWHERE_TO_SEND, NobodyNeedsToBeAsked(), text="Hi", to="home")
    with pytest.raises(ToolFailed):
        await NOWHERE_TO_SEND.send("one", ROSES, "Hi")


def test_it_is_off_unless_chosen_and_nothing_for_guests() -> None:
    known = load_builtin()
    assert why_not(known, ["core"], has_workplace=True)["send_message"] == "toolset messaging is not enabled"
    [tool] = select(known, ["messaging"])
    assert (tool.name, tool.toolset, tool.for_guests, tool.brings) == ("send_message", "messaging", False, "")
    assert set(tool.schema["required"]) == {"text", "to"}


@pytest.mark.parametrize(
    ("scope", "is_grantable"),
    [("discord:7", True), ("telegram:-1001:77", True), ("telegram@work:5", True), ("", False), ("discord:*", False),
     ("discord:…", False), ("discord:7\n", False)],
)  # fmt: skip
def test_one_chat_can_be_granted_for_good(scope: str, is_grantable: bool) -> None:
    assert Rule("send-message", scope).is_grantable == is_grantable


@pytest.mark.parametrize(
    ("granted", "wanted", "is_covered"),
    [
        ("send-message discord:7", "send-message discord:7", True),
        ("send-message discord:7", "send-message discord:77", False),
        ("send-message discord:7", "send-message discord:7:1", False),  # a thread is another place
        ("send-message discord:7:1", "send-message discord:7", False),
        ("send-message discord:7", "send-message slack:7", False),
        ("send-message", "send-message discord:7", False),
        ("unknown-command discord:7", "send-message discord:7", False),
    ],
)
def test_a_grant_is_for_exactly_that_chat(granted: str, wanted: str, is_covered: bool) -> None:
    assert covers(Rule.parse(granted), Rule.parse(wanted)) == is_covered
