"""What another process can do with Telegram alone: look at chats, change updates, switch settings."""

from typing import Protocol

from aiohttp import web

from playground.control import Control, Row, read_body
from playground.stage import Stage
from playground.telegram.limits import Limits
from playground.telegram.rules import Wire
from playground.telegram.world import Chat, World


class Controlled(Protocol):
    """What these routes need of the server."""

    world: World
    limits: Limits


class TelegramControl(Control):
    def __init__(self, stage: Stage, server: Controlled) -> None:
        super().__init__(stage)
        self.server = server
        self.world = server.world

    def table(self) -> list[Row]:
        return [
            *super().table(),
            ("GET", "/chats", self.chats),
            ("GET", "/chats/{chat_id}", self.chat),
            ("GET", "/updates", self.updates),
            ("POST", "/updates/{change}", self.change_updates),
            ("POST", "/settings", self.settings),
        ]

    def description(self) -> Wire:
        return {"bot": self.world.bot.wire}

    async def chats(self, request: web.Request) -> web.Response:
        return web.json_response({"chats": [_summary(chat) for chat in self.world.chats.values()]})

    async def chat(self, request: web.Request) -> web.Response:
        """What the chat shows; `?deleted=1` with what was deleted."""
        chat = self.world.chats[int(request.match_info["chat_id"])]
        messages = self.world.show(chat.id, deleted="deleted" in request.query)
        return web.json_response({**_summary(chat), "messages": messages, "drafts": self.world.drafts(chat.id)})

    async def updates(self, request: web.Request) -> web.Response:
        queue = self.world.updates
        return web.json_response({"pending": queue.count, "next_id": queue.next_id, "polling": queue.polling})

    async def change_updates(self, request: web.Request) -> web.Response:
        """`age` {seconds}, `restart_ids` {at}, `drop`."""
        queue, body = self.world.updates, await read_body(request)
        match request.match_info["change"]:
            case "age":
                queue.age(float(body["seconds"]))
            case "restart_ids":
                queue.restart_ids(body.get("at"))
            case "drop":
                queue.drop()
            case other:
                raise ValueError(f"unknown change {other!r}")
        return web.json_response({"pending": queue.count, "next_id": queue.next_id})

    async def settings(self, request: web.Request) -> web.Response:
        """`privacy`, `hears_mentions`, `limits`: true or false."""
        body = await read_body(request)
        self.world.reads_all = not body.get("privacy", not self.world.reads_all)
        self.world.hears_mentions = body.get("hears_mentions", self.world.hears_mentions)
        self.server.limits.on = self.world.updates.real_pacing = body.get("limits", self.server.limits.on)
        return web.json_response({"privacy": not self.world.reads_all, "limits": self.server.limits.on})


def _summary(chat: Chat) -> Wire:
    topics = {str(thread): topic for thread, topic in chat.topics.items()}
    extra = {"last_action": chat.last_action, "topics": topics, "migrated_to": chat.migrated_to}
    members = {str(user): status for user, status in chat.members.items()}
    return {**chat.wire, "bot_status": chat.bot_status, "members": members, **extra}
