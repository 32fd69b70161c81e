"""The `send_message` tool. A human is always asked first: see `tools.approval.wrapper`.

Who may send where is decided by the `Sends` that the tool is given.
"""

import json
from dataclasses import dataclass, replace
from typing import Annotated, Any, Protocol

from pydantic import Field

from tools.approval.gate import Question, bound_to
from tools.arguments import parse_object
from tools.base import BadArguments, Tool, ToolContext, ToolFailed, ToolOutput, absent
from tools.provenance import Provenance
from tools.registry import build_tool, registry
from tools.shell_guard.granting import Rule

NAME = "send_message"
MAX_TEXT_CHARS = 8_000  # a human has to read all of it before it goes
_ORIGINS_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A chat that a message can be sent to."""

    id: str  # "discord:123", "telegram:-100123:77": names it for good
    name: str  # for people, with the id
    is_here: bool = False  # whether the conversation is in it


class Sends(Protocol):
    """Finds chats and queues messages. `task_id` says for whom."""

    async def find(self, task_id: str, to: str) -> Target:
        """Find a chat they may send to. Raises ToolFailed when there is none, and names those there are."""

    async def send(self, task_id: str, target: Target, text: str) -> None:
        """Queue the text durably; raises ToolFailed as `find` does."""


NOWHERE_TO_SEND: Sends = absent(
    "Messages can be sent only from a chat of the gateway; this conversation is not in one."
)


def messaging_tool(sends: Sends) -> Tool:
    """Build the tool over a sender."""

    async def send_message(
        context: ToolContext,
        text: Annotated[str, Field(description="The message exactly as its readers will see it. Text only, no files.")],
        to: Annotated[
            str,
            Field(
                description="Where to send it: 'home'; a platform name ('telegram', 'discord', 'slack') for its home "
                "channel; or a known chat as 'platform:chat' or 'platform:chat:thread', such as 'telegram:-100123:77'"
            ),
        ],
    ) -> dict[str, Any]:
        """Send a message to another chat. A human has to approve it first.

        Do not use it to reply in this chat: just answer.
        """
        words = _check(text)
        target = await _find_elsewhere(sends, context, to)
        await sends.send(context.task_id, target, words)
        return {
            "status": "queued",
            "to": target.id,
            "note": f"Queued for {target.name}. It has not been delivered yet.",
        }

    async def about(arguments: dict[str, object], context: ToolContext) -> Question | None:
        text, to = arguments.get("text"), arguments.get("to")
        if not isinstance(text, str) or not isinstance(to, str):
            return None  # the tool itself says what is wrong with them, and sends nothing
        words = _check(text)
        return _question(await _find_elsewhere(sends, context, to), words, context.heard())

    # Its results are our own words; guests do not get the tool.
    asking = build_tool(send_message, toolset="messaging", brings="", for_guests=False, about=about)

    async def run(arguments: str, context: ToolContext) -> ToolOutput:
        return await asking.run(await _with_chat_id(sends, arguments, context), context)

    return replace(asking, run=run)


async def _with_chat_id(sends: Sends, arguments: str, context: ToolContext) -> str:
    """Return the arguments with the permanent id of the chat: `home` may move between the approval and the sending."""
    try:
        given = parse_object(arguments)
    except BadArguments:
        return arguments  # the tool itself says what is wrong with them
    to = given.get("to")
    if not isinstance(to, str):
        return arguments
    return json.dumps(given | {"to": (await sends.find(context.task_id, to)).id}, ensure_ascii=False)


def _question(target: Target, text: str, heard: Provenance) -> Question:
    rule = Rule("send-message", target.id)
    return Question(
        tool=NAME,
        action=f"send to {target.name}:\n{text}",
        reasons=("it goes to another chat", *_after_reading(heard)),
        rules=(str(rule),) if rule.is_grantable else (),
        binding=bound_to(NAME, target.id, text),
        decider="owner",
    )


def _after_reading(heard: Provenance) -> tuple[str, ...]:
    origins = list(dict.fromkeys(passage.source for passage in heard.outside))
    if not origins:
        return ()
    more = " and more" if len(origins) > _ORIGINS_NAMED else ""
    return (f"it comes after I have read {', '.join(origins[:_ORIGINS_NAMED])}{more}",)


async def _find_elsewhere(sends: Sends, context: ToolContext, to: str) -> Target:
    target = await sends.find(context.task_id, to)
    if target.is_here:
        raise ToolFailed("That is the chat you are in. Just answer.")
    return target


def _check(text: str) -> str:
    words = text.strip()
    if not words:
        raise ToolFailed("The text is missing: write the message.")
    if len(words) > MAX_TEXT_CHARS:
        raise ToolFailed(
            f"The text has {len(words):,} characters; the limit is {MAX_TEXT_CHARS:,}, since a human reads it before "
            "it is sent. Shorten it."
        )
    return words


registry.add(messaging_tool(NOWHERE_TO_SEND), module=__name__)
