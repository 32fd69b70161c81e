"""Commands about who may speak: `/pairing`, `/allow`, `/whoami`, `/sethome`."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import cast, get_args

from gateway.clock import now_ms
from gateway.commands.registry import CHAT_ONLY, CommandCall, CommandSpec
from gateway.messages import InboundMessage, Sender
from gateway.policies import pairing as words
from gateway.policies.access import Role, Rules, decide
from gateway.policies.pairing import PairingLimits
from gateway.store import chats, members, pairing, people, trail
from gateway.store.db.connection import Transaction
from gateway.store.trail import TrailEvent

_ROLES = get_args(Role)
_NOT_IN_DMS = "This is not a group. Send /allow in the group you want to open."
_USAGE = "Use /pairing list, /pairing approve CODE [owner|member|guest], /pairing revoke ID, or /pairing clear."
_INVITE = "An invite would stay readable in this chat. Create it on the machine instead: hermes pairing invite {}"


def access_commands(
    rules: Rules = Rules(),  # noqa: B008 nobody changes these
    limits: PairingLimits = PairingLimits(),  # noqa: B008 frozen
) -> tuple[CommandSpec, ...]:
    """The commands, knowing what the config says of who may speak and how often a code may be tried."""
    commands = _AccessCommands(rules=rules, limits=limits)
    return (
        CommandSpec(
            "pairing",
            "Access",
            "Manage who may talk to me",
            commands.pairing,
            "[list|approve CODE|revoke ID|clear]",
            owners_only=True,
        ),
        CommandSpec(
            "allow",
            "Access",
            "Open this group to everyone, or close it again",
            commands.allow,
            "here|off",
            places=CHAT_ONLY,
            owners_only=True,
        ),
        CommandSpec(
            "sethome", "Access", "Send notices to this chat", commands.set_home, places=CHAT_ONLY, owners_only=True
        ),
        CommandSpec("whoami", "Access", "Show your id and your role", commands.whoami),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _AccessCommands:
    rules: Rules
    limits: PairingLimits

    def pairing(self, tx: Transaction, call: CommandCall) -> str:
        action, *arguments = call.arguments.split() or ["list"]
        match action.lower():
            case "list":
                return "\n".join(overview_lines(pairing.overview(tx, self.limits)))
            case "approve":
                return self._approve(tx, call, arguments)
            case "revoke":
                return self._revoke(tx, call, arguments)
            case "clear" | "clear-pending":
                return self._clear(tx, call, arguments)
            case "invite":
                platform, rest = _platform_first(tx, call, arguments)
                own = call.key.account_name if call.key.kind else "PLATFORM"
                return _INVITE.format(own if rest == arguments else platform)
            case "unlock":
                return self._unlock(tx, call, arguments)
            case _:
                return f"/pairing cannot do that. {_USAGE}"

    def allow(self, tx: Transaction, call: CommandCall) -> str:
        account, chat = call.key.account_name, call.key.chat
        if call.key.is_private:
            return _NOT_IN_DMS
        match call.arguments.lower():
            case "here":
                chats.allow(tx, account, chat, by=_by(call))
                trail.record(tx, TrailEvent.CHAT_ALLOWED, account=account, chat=chat, by=_by(call))
                return "Everyone in this group may talk to me now. /allow off undoes this."
            case "off":
                return self._disallow(tx, call)
            case _:
                return "Use /allow here to open this group to everyone in it, or /allow off to close it."

    def whoami(self, tx: Transaction, call: CommandCall) -> str:
        account, chat = call.key.account_name, call.key.chat
        name = f"{call.sender_name}, " if call.sender_name else ""
        id_ = f"{account}:{call.sender_id}" if call.sender_id else account
        lines = [f"You are {name}{id_}: {call.role} ({self._why(tx, call)})."]
        if call.role == "owner" and call.place == "chat":
            lines.append(f"The id of this chat for the settings: {account}:{chat}")
        return "\n".join(lines)

    def set_home(self, tx: Transaction, call: CommandCall) -> str:
        chats.set_home(tx, call.key.account_name, call.key.chat)
        trail.record(tx, TrailEvent.HOME_SET, account=call.key.account_name, chat=call.key.chat, by=_by(call))
        return f"Notices on {call.key.account_name} are sent here from now on. Send /sethome elsewhere to change that."

    def _approve(self, tx: Transaction, call: CommandCall, arguments: Sequence[str]) -> str:
        platform, rest = _platform_first(tx, call, arguments)
        if not platform:
            return "Name the platform: /pairing approve telegram CODE"
        role: Role = "member"
        if len(rest) > 1 and rest[-1].lower() in _ROLES:
            role, rest = cast(Role, rest[-1].lower()), rest[:-1]
        if not rest:
            return f"The code is missing. {_USAGE}"
        if slip := _slip_beside_a_code(rest, _known_platforms(tx, call)):
            return slip
        done = pairing.approve(tx, platform, "".join(rest), role, self.limits, by=_by(call))
        if isinstance(done, members.Problem):
            return done.text
        return words.approved(done.name, f"{done.account}:{done.user_id}", done.role, in_chat=True)

    def _revoke(self, tx: Transaction, call: CommandCall, arguments: Sequence[str]) -> str:
        platform, rest = _platform_first(tx, call, arguments)
        who = " ".join(rest)
        if not platform:
            return "Name the platform and the person: /pairing revoke telegram 123456789"
        if not who:
            return "Name the person: /pairing revoke 123456789"
        if who == call.sender_id and words.covers(platform, call.key.account_name):
            return "You cannot revoke your own access. Another owner can."
        done = members.revoke(
            tx,
            platform,
            who,
            owner_users=self.rules.owner_users,
            allowed_users=self.rules.allowed_users,
            by=_by(call),
        )
        if isinstance(done, members.Problem):
            return done.text
        return words.revoked(done.name, done.user_id, platform, is_listed=done.is_listed, in_chat=True)

    def _clear(self, tx: Transaction, call: CommandCall, arguments: Sequence[str]) -> str:
        platform, rest = _platform_first(tx, call, arguments)
        if rest:
            return words.nearest(rest[0], _known_platforms(tx, call))
        return words.cleared(*pairing.clear(tx, platform or None))

    def _unlock(self, tx: Transaction, call: CommandCall, arguments: Sequence[str]) -> str:
        platform, _ = _platform_first(tx, call, arguments)
        locked = [lock.platform for lock in pairing.overview(tx, self.limits).locks]
        name = words.platform_of(platform) or next(iter(locked), "PLATFORM")
        return f"This can only be unlocked on the machine itself: hermes pairing unlock {name}"

    def _disallow(self, tx: Transaction, call: CommandCall) -> str:
        account, chat = call.key.account_name, call.key.chat
        opened_by_config = bool(call.key.place_names & self.rules.allowed_chats)
        was_open = chats.disallow(tx, account, chat, stays_open=opened_by_config)
        if was_open:
            trail.record(tx, TrailEvent.CHAT_CLOSED, account=account, chat=chat, by=_by(call))
        if opened_by_config:
            return "The config opens this group, so it stays open. Take it out of access.allowed_chats there."
        if call.key.within and people.read_status(tx, account, call.sender_id, call.key.within).chat_allowed:
            return "The channel around this thread is open, and its threads with it. Send /allow off there."
        if not was_open:
            return "This group was not open. /allow here opens it to everyone in it."
        return "This group is closed: I talk here to owners and to people on an allowlist. /allow here opens it again."

    def _why(self, tx: Transaction, call: CommandCall) -> str:
        standing = people.read_status(tx, call.key.account_name, call.sender_id, call.key.chat, call.key.within)
        decision = decide(self._probe(call), self.rules, standing, local=call.place == "cli")
        if decision.role is None and call.role == "owner":  # only a local platform lets such a one in
            decision = decide(self._probe(call), self.rules, standing, local=True)
        return decision.reason

    def _probe(self, call: CommandCall) -> InboundMessage:
        sender = Sender(id=call.sender_id, name=call.sender_name)
        return InboundMessage(key=call.key, message_id="", sender=sender, parts=(), sent_ms=0)


def _by(call: CommandCall) -> str:
    return f"{call.key.account_name}:{call.sender_id}"


def _platform_first(tx: Transaction, call: CommandCall, arguments: Sequence[str]) -> tuple[str, Sequence[str]]:
    """The platform if it is named, else the chat's own; empty in a chat of the owner alone, where nobody pairs."""
    if arguments and arguments[0].lower() in _known_platforms(tx, call):
        return arguments[0].lower(), arguments[1:]
    return call.key.platform if call.key.kind else "", arguments


def _known_platforms(tx: Transaction, call: CommandCall) -> set[str]:
    accounts = members.list_accounts(tx)
    if call.key.kind:
        accounts |= {call.key.account_name}
    return accounts | {words.platform_of(account) for account in accounts}


def _slip_beside_a_code(typed: Sequence[str], platforms: Collection[str]) -> str:
    """Return the hint for a correct code with a stray word beside it, which is not a wrong code."""
    if words.read_code("".join(typed)) is not None:
        return ""
    if words.read_code("".join(typed[:-1])) is not None:
        return words.unknown_role(typed[-1], _ROLES)
    return words.nearest(typed[0], platforms) if words.read_code("".join(typed[1:])) is not None else ""


def overview_lines(found: pairing.Overview) -> list[str]:
    """Who waits, who is in and who is out; also what `hermes pairing list` prints."""
    now = now_ms()
    lines = [
        f"{one.name} ({one.account}:{one.user_id}) asked {words.in_words(now - one.requested_ms)} ago; "
        f"the code is good for {words.in_words(one.expires_ms - now)}."
        for one in found.pending
    ]
    lines = lines or ["Nobody is waiting for approval."]
    lines += [f"{one.name} ({one.account}:{one.user_id}) has access as {one.role}." for one in found.people]
    lines += [f"{one.name} ({one.account}:{one.user_id}) no longer has access." for one in found.revoked]
    lines += [f"Pairing on {one.platform} is locked for {words.in_words(one.until_ms - now)}." for one in found.locks]
    lines += [
        f"Open invite on {one.platform} with the role {one.role}, valid for {words.in_words(one.expires_ms - now)}."
        for one in found.invites
    ]
    return lines
