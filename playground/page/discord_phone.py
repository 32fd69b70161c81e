"""A phone with Discord on it."""

from datetime import datetime

from playground.discord.server import DiscordServer
from playground.discord.world import DM, TEXT, DiscordChannel, DiscordMessage, DiscordUser, Guild
from playground.page.phone import Phone, PhoneMessage, PhonePlace, flatten, to_handle
from playground.wire import Wire

OWNER = 1_200_000_000_000_000_001
_VOICE_MESSAGE = 1 << 13
_JOINED, _THREAD_START, _REPLY = 7, 21, 19
_SERVICE = {
    _JOINED: "{name} joined the server",
    18: "{name} started a thread: {content}",
    _THREAD_START: "The thread begins here",
}


class DiscordPhone(Phone):
    platform = "discord"
    typing_seconds = 10.0

    def __init__(self, server: DiscordServer) -> None:
        super().__init__(server, handle=server.world.bot.username, mention=f"<@{server.world.bot.id}>")
        self._people, self._world = server.people, server.world
        people = self._people
        self.owner = str(people.make_user("you", global_name="You (owner)", id=OWNER)["id"])
        ada = people.make_user("ada", global_name="Ada", id=OWNER + 1)["id"]
        people.make_user("ben", global_name="Ben", id=OWNER + 2)
        guild = people.make_guild("Garden club", members=[self.owner, ada])["id"]
        for name in ("general", "roses"):
            people.make_channel(guild, name)

    @property
    def _guild(self) -> Guild:
        return next(iter(self._world.guilds.values()))

    def people(self) -> dict[str, str]:
        return {str(user.id): _name(user) for user in self._world.users.values() if not user.bot}

    def places(self, person: str) -> list[PhonePlace]:
        found = [PhonePlace(id="dm", title=self._world.bot.username, kind="dm")]
        joined, channels = int(person) in self._guild.members, self._world.channels.values()
        for channel in channels:
            if channel.kind == TEXT:
                parent = str(channel.id)
                found.append(PhonePlace(id=parent, title=channel.name, kind="channel", joined=joined))
                threads = [one for one in channels if joined and one.parent_id == channel.id]
                found += [PhonePlace(id=str(one.id), title=one.name, kind="thread", parent=parent) for one in threads]
        return found

    def _channel(self, person: str, place: str) -> DiscordChannel:
        if place == "dm":
            return self._world.dm(self._world.users[int(person)])
        channel = self._world.channels[int(place)]
        if channel.kind == DM or int(person) not in self._guild.members:
            raise ValueError("They are not in this channel.")
        return channel

    def messages(self, person: str, place: str) -> list[PhoneMessage]:
        posts = self._channel(person, place).posts.values()
        # An ephemeral message is for whoever asked for it.
        asker = [(post, (post.body.get("interaction_metadata") or {}).get("user", {}).get("id")) for post in posts]
        shown = [post for post, who in asker if not post.deleted and (not post.ephemeral or who == person)]
        return [self._message(post, person) for post in shown]

    def _message(self, post: DiscordMessage, person: str) -> PhoneMessage:
        body, author, name = post.body, post.author, _name(post.author)
        reactions, voice = post.reactions.items(), "voice" if body["flags"] & _VOICE_MESSAGE else ""
        return PhoneMessage(
            id=str(post.id),
            author=name,
            author_id=str(author.id),
            by_bot=post.by_bot,
            mine=str(author.id) == person,
            at_ms=int(datetime.fromisoformat(body["timestamp"]).timestamp() * 1000),
            words=[{"text": post.words, "format": "markdown"}] if post.words else [],
            edited=bool(body["edited_timestamp"]),
            service=_SERVICE.get(body["type"], "").format(name=name, content=body["content"]),
            private=post.ephemeral,
            quote=self._quote(body),
            buttons=[
                [{"label": one["label"], "key": one["custom_id"], "style": ""} for one in row["components"]]
                for row in body["components"]
            ],
            reactions=[{"emoji": one, "count": len(by), "mine": int(person) in by} for one, by in reactions],
            files=[self.show_file(one["id"], voice) for one in body["attachments"]],
            thread=self._thread(post),
        )

    def _quote(self, body: Wire) -> Wire | None:
        if body["type"] != _REPLY:
            return None
        reference = body["message_reference"]
        replied = self._world.channels[int(reference["channel_id"])].post(int(reference["message_id"]))
        if replied is None:
            return {"author": "", "text": "a message that was deleted"}
        return {"author": _name(replied.author), "text": flatten(replied.words, self.names())[:120] or "a file"}

    def _thread(self, post: DiscordMessage) -> Wire | None:
        thread = self._world.channels.get(post.id)
        if thread is None:
            return None
        replies = [one for one in thread.posts.values() if not one.deleted and one.body["type"] != _THREAD_START]
        last = f"{_name(replies[-1].author)}: {flatten(replies[-1].words, self.names())[:80]}" if replies else ""
        return {"place": str(thread.id), "replies": len(replies), "last": last}

    def names(self) -> dict[str, str]:
        return {str(user.id): _name(user) for user in self._world.users.values()}

    def commands(self) -> list[Wire]:
        return [{"name": one["name"], "description": one["description"]} for one in self._world.commands]

    def is_typing_event(self, event: Wire, person: str, place: str) -> bool | None:
        if event.get("channel_id") != str(self._channel(person, place).id):
            return None
        if event["kind"] == "typing":
            return True
        return False if event["kind"] == "message" and event["by_bot"] else None

    def add_person(self, name: str) -> str:
        return str(self._people.make_user(to_handle(name), global_name=name)["id"])

    def say(self, person: str, place: str, text: str, reply_to: str = "") -> None:
        channel, (name, _, rest) = self._channel(person, place), text.strip().partition(" ")
        if name.startswith("/") and name[1:] in [one["name"] for one in self.commands()]:
            options = {"text": rest.strip()} if rest.strip() else None
            self._people.use_command(channel.id, person, name[1:], options)
        else:
            self._people.send_text(channel.id, person, text, reply_to=reply_to or 0)

    def send_file(
        self, person: str, place: str, content: bytes, *, name: str, mime_type: str, kind: str, caption: str = ""
    ) -> None:
        voice = kind == "voice"
        about: Wire = {"duration_secs": 2.0, "waveform": "AAAA"} if voice else {}
        self._people.send_text(
            self._channel(person, place).id,
            person,
            caption,
            files=[{"name": name, "content": content, "mime_type": mime_type, "extra": about}],
            extra={"flags": _VOICE_MESSAGE} if voice else None,
        )

    def edit(self, person: str, place: str, message: str, text: str) -> None:
        self._people.edit_text(self._channel(person, place).id, message, text)

    def delete(self, person: str, place: str, message: str) -> None:
        self._people.delete(self._channel(person, place).id, [message])

    def react(self, person: str, place: str, message: str, emoji: str, *, remove: bool) -> None:
        self._people.react(self._channel(person, place).id, person, message, emoji, remove=remove)

    def press(self, person: str, place: str, message: str, button: str) -> None:
        self._people.press(self._channel(person, place).id, person, message, custom_id=button)

    def join(self, person: str, place: str) -> None:
        self._people.join(self._guild.id, person)
        general = next(one for one in self._world.channels.values() if one.kind == TEXT)
        self._people.send_system(general.id, person, _JOINED)

    def open_thread(self, person: str, place: str, message: str, name: str) -> str:
        channel = self._channel(person, place)
        return str(self._people.make_thread(channel.id, person, name, message_id=message or 0)["id"])


def _name(user: DiscordUser) -> str:
    return user.global_name or user.username
