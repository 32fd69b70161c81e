"""Which scope a method needs: one of those listed is enough."""

from playground.slack.rules import Refused
from playground.slack.world import ChannelKind

_READ = ("channels:read", "groups:read", "mpim:read", "im:read")
_HISTORY = ("channels:history", "groups:history", "mpim:history", "im:history")
NEEDED: dict[str, tuple[str, ...]] = {
    "apps.connections.open": ("connections:write",),
    "assistant.threads.setStatus": ("assistant:write", "chat:write"),
    "bots.info": ("users:read",),
    "chat.delete": ("chat:write",),
    "chat.postEphemeral": ("chat:write",),
    "chat.postMessage": ("chat:write", "chat:write.public"),
    "chat.update": ("chat:write",),
    "conversations.history": _HISTORY,
    "conversations.info": _READ,
    "conversations.list": _READ,
    "conversations.members": _READ,
    "conversations.open": ("im:write", "mpim:write"),
    "conversations.replies": _HISTORY,
    "files.completeUploadExternal": ("files:write",),
    "files.getUploadURLExternal": ("files:write",),
    "files.info": ("files:read",),
    "reactions.add": ("reactions:write",),
    "reactions.remove": ("reactions:write",),
    "team.info": ("team:read",),
    "users.conversations": _READ,
    "users.info": ("users:read",),
}
_USUAL = (
    "app_mentions:read assistant:write channels:history channels:read chat:write commands files:read files:write "
    "groups:history groups:read im:history im:read im:write mpim:history mpim:read mpim:write reactions:read "
    "reactions:write team:read users:read"
)
USUAL = frozenset(_USUAL.split())
_PREFIXES = {"channel": "channels", "group": "groups", "mpim": "mpim", "im": "im"}


def check_scope(method: str, provided: frozenset[str]) -> None:
    needed = NEEDED.get(method, ())
    if needed and not provided.intersection(needed):
        raise missing(needed, provided)


def check_kind_scope(kind: ChannelKind, right: str, provided: frozenset[str]) -> None:
    """`right` is read or history, of this kind of channel."""
    if (scope := f"{_PREFIXES[kind]}:{right}") not in provided:
        raise missing((scope,), provided)


def missing(needed: tuple[str, ...], provided: frozenset[str]) -> Refused:
    return Refused("missing_scope", needed=",".join(needed), provided=",".join(sorted(provided)))


def scope_headers(method: str, provided: frozenset[str]) -> dict[str, str]:
    accepted = ",".join(NEEDED.get(method, ()))
    return {"x-oauth-scopes": ",".join(sorted(provided)), "x-accepted-oauth-scopes": accepted}
