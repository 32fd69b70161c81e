"""Answers to commands and buttons: what an ack carries, and the address that works five times within half an hour."""

import secrets
from dataclasses import dataclass

from playground.slack.chat import say, whisper
from playground.slack.messages import change, remove
from playground.slack.rules import Refused, check_blocks, check_text
from playground.slack.text import as_kept
from playground.slack.world import Channel, Post, World
from playground.wire import Wire

USES = 5
LIFE_SECONDS = 30 * 60


@dataclass(slots=True, kw_only=True)
class Response:
    """Where an answer goes: who asked, where, and by which message if by one."""

    channel: Channel
    user_id: str
    made: float
    post: Post | None = None
    uses: int = 0


class Responses:
    def __init__(self, world: World) -> None:
        self._world = world
        self._open: dict[str, Response] = {}

    def new(self, kind: str, channel: Channel, user_id: str, post: Post | None = None) -> tuple[str, Response]:
        """The address; `kind` is commands or actions."""
        now = self._world.now()
        self._open = {key: one for key, one in self._open.items() if one.made > now - LIFE_SECONDS}
        key = secrets.token_hex(12)
        self._open[key] = Response(channel=channel, user_id=user_id, made=now, post=post)
        return f"{self._world.root()}/{kind}/{self._world.team_id}/{key}", self._open[key]

    def use(self, key: str, given: Wire) -> None:
        response = self._open.get(key)
        if response is None or response.made <= self._world.now() - LIFE_SECONDS:
            raise Refused("expired_url", status=404)
        if response.uses >= USES:
            raise Refused("used_url", status=404)
        response.uses += 1
        self.answer(response, given)

    def answer(self, response: Response, given: Wire) -> None:
        """Seen by the one who asked, unless it says `in_channel`; may replace or delete the message it came from."""
        if given.get("delete_original"):
            self._delete(response)
            return
        fields: Wire = {"text": check_text(str(given.get("text") or "")), "blocks": check_blocks(given.get("blocks"))}
        if not fields["text"] and not fields["blocks"]:
            raise Refused("no_text", status=400)
        if given.get("replace_original") and response.post:
            self._replace(response.channel, response.post, fields)
        elif given.get("response_type") == "in_channel":
            say(self._world, response.channel, fields, thread=str(given.get("thread_ts") or ""))
        else:
            whisper(self._world, response.channel, response.user_id, fields)

    def _replace(self, channel: Channel, post: Post, fields: Wire) -> None:
        if post.for_user:  # no event tells of what one user alone sees
            post.earlier.append(post.words)
            post.body |= {"text": as_kept(fields["text"]), "blocks": fields["blocks"]}
            self._world.events.note("edit", channel=channel.id, ts=post.ts, by_bot=True, message=post.body)
        else:
            new = {"text": as_kept(fields["text"]), "blocks": fields["blocks"] or None}
            change(self._world, channel, post, new, by=self._world.bot.id)

    def _delete(self, response: Response) -> None:
        if response.post and response.post.for_user:
            response.post.deleted = True
        elif response.post:
            remove(self._world, response.channel, response.post)
