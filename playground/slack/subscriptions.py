"""What the app asked to hear, and the wrapping that the Events API puts around it."""

import secrets

from playground.slack.sockets import Delivery, Sockets
from playground.slack.world import World
from playground.wire import Wire

KNOWN = (
    "message.channels message.groups message.im message.mpim app_mention app_home_opened reaction_added "
    "reaction_removed member_joined_channel member_left_channel channel_archive channel_unarchive group_archive "
    "group_unarchive"
)
EVERYTHING = frozenset(KNOWN.split())


class Subscriptions:
    """Events that are not subscribed to are never sent."""

    def __init__(self, world: World, sockets: Sockets) -> None:
        self.to: frozenset[str] = EVERYTHING
        self._world = world
        self._sockets = sockets
        world.emit = self.emit

    def choose(self, names: list[str]) -> None:
        if unknown := sorted(set(names) - EVERYTHING):
            raise ValueError(f"unknown subscriptions: {', '.join(unknown)}")
        self.to = frozenset(names)

    def emit(self, subscription: str, event: Wire) -> None:
        if subscription in self.to:
            item = event.get("item", {})
            place = event.get("channel") or item.get("channel") or ""
            self._sockets.push(
                Delivery(type="events_api", payload=self._wrapped(event), name=event["type"], place=place)
            )

    def _wrapped(self, event: Wire) -> Wire:
        world = self._world
        who = {"enterprise_id": None, "team_id": world.team_id, "user_id": world.bot.id}
        return {
            "token": "playground-verification",
            "team_id": world.team_id,
            "context_team_id": world.team_id,
            "context_enterprise_id": None,
            "api_app_id": world.app_id,
            "event": event,
            "type": "event_callback",
            "event_id": f"Ev{secrets.token_hex(5).upper()}",
            "event_time": int(world.now()),
            "authorizations": [{**who, "is_bot": True, "is_enterprise_install": False}],
            "is_ext_shared_channel": False,
            "event_context": f"4-{secrets.token_hex(12)}",
        }
