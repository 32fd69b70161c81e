"""How a text is read as a command, and who may use which."""

import pytest

from gateway.commands.catalog import make_commands
from gateway.commands.registry import CommandCall, CommandReply, Commands, CommandSpec, Place, parse
from gateway.messages import SessionKey
from gateway.policies.access import Role
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database

KEY = SessionKey(platform="telegram", kind="dm", chat="1")


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("/new", ("new", "")),
        ("/NEW", ("new", "")),
        ("  /new  ", ("new", "")),
        ("/new@hermes_bot", ("new", "")),
        ("/title  The big plan ", ("title", "The big plan")),
        ("/title two\nlines", ("title", "two\nlines")),
        ("/reload-mcp", ("reload-mcp", "")),
        ("stop", ("stop", "")),
        ("Cancel", ("stop", "")),
        ("please stop", None),
        ("stop!", None),
        ("/", None),
        ("//new", None),
        ("/1", None),
        ("/etc/hosts", None),
        ("new", None),
        ("", None),
    ],
)
def test_reading_a_command(text: str, parsed: tuple[str, str] | None) -> None:
    assert parse(text) == parsed


def _say(text: str) -> CommandSpec:
    return CommandSpec(name=text, description="", category="Agent", run=lambda tx, call: CommandReply(text=text))


def _admin(tx: Transaction, call: CommandCall) -> CommandReply:
    return CommandReply(text="done")


COMMANDS = Commands(
    [
        _say("status"),
        CommandSpec(name="restart", description="", category="Access", run=_admin, owners_only=True),
        CommandSpec(name="clear", description="", category="Help", run=_admin, places=frozenset({"cli"})),
    ]
)


@pytest.mark.parametrize(
    ("name", "role", "place", "answer"),
    [
        ("status", "member", "chat", "status"),
        ("restart", "owner", "chat", "done"),
        ("restart", "member", "chat", "/restart is not available to you here. /help lists what is."),
        ("clear", "owner", "cli", "done"),
        ("clear", "owner", "chat", "/clear works in the terminal, not in chats. /help lists what works here."),
        ("statsu", "member", "chat", "There is no command /statsu. Did you mean /status?"),
        ("restrat", "owner", "chat", "There is no command /restrat. Did you mean /restart or /status?"),
        ("restrat", "member", "chat", "There is no command /restrat. Did you mean /status?"),
        ("qqq", "owner", "chat", "There is no command /qqq. /help lists all commands."),
    ],
)
async def test_who_may_use_what_where(db: Database, name: str, role: Role, place: Place, answer: str) -> None:
    call = CommandCall(key=KEY, name=name, role=role, place=place)
    assert (await db.write(lambda tx: COMMANDS.run(tx, call))).text == answer


async def test_help_lists_every_command_with_its_aliases_below_bold_headings(db: Database) -> None:
    commands = make_commands()
    reply = await db.write(lambda tx: commands.run(tx, CommandCall(key=KEY, name="help")))
    assert reply.text.splitlines() == [
        "**Session**",
        "- /new, /reset: Start a new conversation",
        "- /resume [id or title]: Go back to an old conversation",
        "- /stop [all]: Stop the running turn; all: also background processes",
        "- /status: Show model, session and tokens used",
        "- /usage: Show tokens, cost and what is left of the budget",
        "- /why: Show what happened to the message you reply to, or to the last one",
        "",
        "**Agent**",
        "- /verbose off|new|all|verbose: Choose how much to show of tool use",
        "",
        "**Access**",
        "- /approve [ID] [session|always]: Approve a request",
        "- /deny [ID]: Deny a request",
        "- /pairing [list|approve CODE|revoke ID|clear]: Manage who may talk to me",
        "- /allow here|off: Open this group to everyone, or close it again",
        "- /sethome: Send notices to this chat",
        "- /whoami: Show your id and your role",
        "",
        "**Help**",
        "- /help: List the commands",
    ]


async def test_help_in_a_terminal_has_no_markup(db: Database) -> None:
    call = CommandCall(key=KEY, name="help", place="cli")
    reply = await db.write(lambda tx: make_commands().run(tx, call))
    assert reply.text.startswith("Session\n  /new, /reset: Start a new conversation\n")
    assert "\n\nHelp\n  /help: List the commands" in reply.text
    assert "*" not in reply.text


def test_no_name_is_used_twice() -> None:
    names = [name for spec in make_commands().specs for name in (spec.name, *spec.aliases)]
    assert len(names) == len(set(names))
