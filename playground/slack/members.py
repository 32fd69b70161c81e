"""Who is where: users, bots, channels and direct messages come, change and go."""

from collections.abc import Sequence

from playground.slack.conversations import mpim_with
from playground.slack.messages import join, leave
from playground.slack.world import Channel, User, World
from playground.wire import Wire


class Members:
    def __init__(self, world: World) -> None:
        self.world = world

    def make_user(
        self,
        name: str = "ada",
        *,
        real_name: str = "",
        display_name: str = "",
        id: str = "",  # noqa: A002
        tz: str = "Europe/Amsterdam",
    ) -> Wire:
        """Someone of the workspace, as `users.info` tells of them."""
        user = User(
            id=id or self.world.new_id("U"),
            name=name,
            real_name=real_name,
            display_name=display_name,
            tz=tz,
            team_id=self.world.team_id,
        )
        return self._added(user)

    def make_bot(self, name: str = "helper", *, id: str = "") -> Wire:  # noqa: A002
        """Another bot."""
        user = User(id=id or self.world.new_id("U"), name=name, is_bot=True, team_id=self.world.team_id)
        user.bot_id, user.app_id = self.world.new_id("B"), self.world.new_id("A")
        return self._added(user)

    def _added(self, user: User) -> Wire:
        self.world.users[user.id] = user
        return user.wire

    def deactivate(self, user: str) -> None:
        self._user(user).deleted = True

    def make_channel(
        self,
        name: str = "general",
        *,
        members: Sequence[str] = (),
        private: bool = False,
        with_bot: bool = True,
        id: str = "",  # noqa: A002
    ) -> Wire:
        """The bot is in it from the start unless told otherwise; no events tell of that."""
        if any(channel.name == name for channel in self.world.channels.values()):
            raise ValueError(f"there is a channel {name!r}")
        inside = [*(self._user(user).id for user in members), *([self.world.bot.id] if with_bot else [])]
        channel = Channel(
            id=id or self.world.new_id("C"), kind="group" if private else "channel", name=name, members=inside
        )
        self.world.channels[channel.id] = channel
        return channel.wire

    def make_dm(self, user: str) -> Wire:
        """The direct channel of a user and the bot; there is one, made when first asked for."""
        return self.world.im_with(self._user(user).id).wire

    def make_group_dm(self, users: Sequence[str]) -> Wire:
        """A direct channel of several users and the bot."""
        return mpim_with(self.world, [self._user(user).id for user in users]).wire

    def join(self, channel: str, user: str) -> None:
        join(self.world, self._channel(channel), self._user(user))

    def leave(self, channel: str, user: str) -> None:
        leave(self.world, self._channel(channel), self._user(user))

    def invite_bot(self, channel: str, user: str) -> None:
        """The bot hears that it joined, and who invited it."""
        join(self.world, self._channel(channel), self.world.bot, inviter=self._user(user).id)

    def remove_bot(self, channel: str) -> None:
        leave(self.world, self._channel(channel), self.world.bot)

    def archive(self, channel: str, user: str, *, undo: bool = False) -> None:
        place = self._channel(channel)
        place.archived = not undo
        kind = f"{'group' if place.kind == 'group' else 'channel'}_{'unarchive' if undo else 'archive'}"
        if self.world.hears(place):
            event = {"type": kind, "channel": channel, "user": self._user(user).id, "event_ts": self.world.next_ts()}
            self.world.emit(kind, event)

    def restrict(self, channel: str, *, undo: bool = False) -> None:
        """Only admins may post from now on: the bot may not."""
        self._channel(channel).restricted = not undo

    def _channel(self, channel: str) -> Channel:
        if channel not in self.world.channels:
            raise ValueError(f"there is no channel {channel!r}")
        return self.world.channels[channel]

    def _user(self, user: str) -> User:
        if user not in self.world.users:
            raise ValueError(f"there is no user {user!r}")
        return self.world.users[user]
