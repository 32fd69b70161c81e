"""Messages to other chats than the one a conversation is in. It always asks first: see `tools.approval.wrapper`.

Who may send where is not decided here but by whoever sends; without one there is nowhere to send to.
"""

import json
from dataclasses import dataclass, replace
from typing import Annotated, Any, Protocol

from pydantic import Field

from tools.approval.gate import Question, bound_to
from tools.approval.wrapper import needs_approval
from tools.arguments import parse_object
from tools.base import BadArguments, Tool, ToolContext, ToolFailed, ToolOutput
from tools.provenance import Provenance
from tools.registry import build_tool, registry
from tools.shell_guard.granting import Rule

NAME = "send_message"
MAX_TEXT_CHARS = 8_000  # a human has to read all of it before it goes
_ORIGINS_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    id: str  # "discord:123", "telegram:-100123:77": by this it can be named again
    name: str  # in words, with the id
    is_here: bool = False  # where the conversation is


class Sends(Protocol):
    """Knows the places, and who may send to which. `task_id` says for whom."""

    async def find(self, task_id: str, to: str) -> Target:
        """Raises ToolFailed when there is no such place for them, and says which there are."""

    async def send(self, task_id: str, target: Target, text: str) -> None:
        """Returns once the text is sure to be sent, though not yet sent; raises ToolFailed as `find` does."""


class NowhereToSend:
    """For conversations that are in no chat."""

    async def find(self, task_id: str, to: str) -> Target:
        raise ToolFailed("Messages can be sent from chats of the gateway alone, and this conversation is in none.")

    async def send(self, task_id: str, target: Target, text: str) -> None:
        await self.find(task_id, target.id)


def messaging_tool(sends: Sends) -> Tool:
    """The tool over the sender of the caller's choice."""

    async def send_message(
        context: ToolContext,
        text: Annotated[str, Field(description="The message, as its readers shall see it; words only, no files")],
        to: Annotated[
            str,
            Field(
                description="Where: 'home', a platform ('telegram', 'discord', 'slack') for its home channel, or a "
                "chat that is known here as 'platform:chat' or 'platform:chat:thread'"
            ),
        ],
    ) -> dict[str, Any]:
        """Send a message to another chat. A human is asked first. To say something in this chat, just answer."""
        words = _checked(text)
        target = await _elsewhere(sends, context, to)
        await sends.send(context.task_id, target, words)
        return {
            "status": "queued",
            "to": target.id,
            "note": f"On its way to {target.name}. It is queued, which does not mean that it has been delivered.",
        }

    async def about(arguments: dict[str, object], context: ToolContext) -> Question | None:
        text, to = arguments.get("text"), arguments.get("to")
        if not isinstance(text, str) or not isinstance(to, str):
            return None  # the tool itself says what is wrong with them, and sends nothing
        words = _checked(text)
        return _question(await _elsewhere(sends, context, to), words, context.heard())

    # What it tells is our own; a guest's turn does not have it.
    built = build_tool(send_message, toolset="messaging", brings="")
    asking = needs_approval(replace(built, for_guests=False), about)

    async def run(arguments: str, context: ToolContext) -> ToolOutput:
        return await asking.run(await _by_id(sends, arguments, context), context)

    return replace(asking, run=run)


async def _by_id(sends: Sends, arguments: str, context: ToolContext) -> str:
    """The same arguments, with the place as it is called for ever: a home can be moved between the yes that is taken
    and the message that is sent."""
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


async def _elsewhere(sends: Sends, context: ToolContext, to: str) -> Target:
    target = await sends.find(context.task_id, to)
    if target.is_here:
        raise ToolFailed("That is the chat you are in. Just answer: what you say is read here.")
    return target


def _checked(text: str) -> str:
    words = text.strip()
    if not words:
        raise ToolFailed("A message needs text: the words that shall be read.")
    if len(words) > MAX_TEXT_CHARS:
        raise ToolFailed(
            f"The text has {len(words):,} characters; a message may have at most {MAX_TEXT_CHARS:,}, since a human "
            "reads it before it goes. Say it shorter."
        )
    return words


registry.add(messaging_tool(NowhereToSend()), module=__name__)
