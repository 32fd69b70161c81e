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
    return CommandSpec(text, "Agent", "", lambda tx, call: CommandReply(text))


def _admin(tx: Transaction, call: CommandCall) -> CommandReply:
    return CommandReply("done")


COMMANDS = Commands(
    [
        _say("status"),
        CommandSpec("restart", "Access", "", _admin, owners_only=True),
        CommandSpec("clear", "Help", "", _admin, places=frozenset({"cli"})),
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
        ("stat", "member", "chat", "There is no command /stat. Did you mean /status?"),
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
        "- /sessions [words of a title]: List the conversations of this chat",
        "- /title [text]: Show or change the title of this conversation",
        "- /compress [tokens]: Summarise the older messages of this conversation",
        "- /stop [all]: Stop the running turn; all: also what runs in the background",
        "- /status: Show model, session and tokens used",
        "- /history [number]: Show the last messages of this conversation",
        "- /search WORDS: Search your earlier conversations",
        "- /save [md|json]: Save this conversation as a file",
        "- /retry: Run your last message again",
        "- /undo [yes]: Remove the last exchange from the conversation",
        "- /branch [title]: Continue in a copy of this conversation",
        "- /usage: Show tokens, cost and what is left of the budget",
        "- /why: Show what happened to the message you reply to, or to the last one",
        "",
        "**Agent**",
        "- /model [NAME|default]: Show or change the model of this conversation",
        "- /personality [NAME|default]: Show or change my personality in this conversation",
        "- /tools [list]: List my tools and why some are off",
        "- /toolsets [on NAME|off NAME|default]: Switch groups of tools on or off in this conversation",
        "- /verbose off|new|all|verbose: Choose how much to show of tool use",
        "- /background PROMPT: Work on a prompt beside this conversation and post the result here",
        "- /terminal COMMAND [--background]: Run a shell command, with the same rules as the agent's",
        "- /reasoning [level]: Show the model's thoughts, or choose how much it thinks",
        "- /voice [on|off|auto]: Have answers spoken as well",
        "- /memory [list|search WORDS|why KEY|undo|forget KEY]: Show, explain and take back what I remember",
        "- /cron [list|create|edit|pause|resume|run|remove|history]: Schedule prompts, and see what became of them",
        "- /skills [list|search WORDS|inspect NAME|install SOURCE|update NAME [CHANGES]|remove NAME|undo]: List, read, "
        "install and change skills: instructions for kinds of tasks",
        "",
        "**Access**",
        "- /approve [ID] [session|always]: Approve a request",
        "- /deny [ID]: Deny a request",
        "- /pairing [list|approve CODE|revoke ID|clear]: Manage who may talk to me",
        "- /allow here|off: Open this group to everyone, or close it again",
        "- /sethome: Send notices to this chat",
        "- /whoami: Show your id and your role",
        "- /restart: Restart the gateway; running turns may finish first",
        "- /reload-mcp, /reload_mcp: Read the settings of MCP servers again and restart them",
        "",
        "**Help**",
        "- /help [COMMAND]: List the commands, or explain one",
    ]


async def test_help_in_a_terminal_has_no_markup(db: Database) -> None:
    call = CommandCall(key=KEY, name="help", place="cli")
    reply = await db.write(lambda tx: make_commands().run(tx, call))
    assert reply.text.startswith("Session\n  /new, /reset: Start a new conversation\n")
    assert "\n\nHelp\n  /help [COMMAND]: List the commands, or explain one" in reply.text
    assert "*" not in reply.text


def test_no_name_is_used_twice() -> None:
    names = [name for spec in make_commands().specs for name in (spec.name, *spec.aliases)]
    assert len(names) == len(set(names))
