"""Commands about who may speak, as a chat sees them."""

import pytest

from gateway.commands.access import access_commands
from gateway.commands.registry import CommandCall, Commands, Place
from gateway.commands.runner import CommandRunner
from gateway.inbound.intake import Intake
from gateway.messages import SessionKey, Text
from gateway.policies.access import Role, Rules
from gateway.store import chats, members, pairing, people
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from tests.gateway.scene import rows
from tests.gateway.store.strangers import LIMITS, asks, stranger
from tools.content import load_parts

DM = SessionKey(platform="telegram", kind="dm", chat="7")
GROUP = SessionKey(platform="telegram", kind="group", chat="-100")
PAGE = SessionKey(platform="web", chat="main")
RULES = Rules(owner_users=frozenset({"telegram:7"}))


async def say(
    db: Database,
    text: str,
    *,
    key: SessionKey = DM,
    role: Role = "owner",
    place: Place = "chat",
    rules: Rules = RULES,
    sender: str = "7",
) -> str:
    name, _, arguments = text.partition(" ")
    call = CommandCall(
        key=key, name=name, arguments=arguments, role=role, place=place, sender_id=sender, sender_name="Owner"
    )
    return (await db.write(lambda tx: Commands(access_commands(rules, LIMITS)).run(tx, call))).text


@pytest.mark.parametrize("command", ["pairing", "allow here", "sethome"])
@pytest.mark.parametrize("role", ["member", "guest"])
async def test_for_owners_alone(db: Database, command: str, role: Role) -> None:
    assert "not available to you" in await say(db, command, role=role)


async def test_the_list_when_there_is_nothing_to_tell(db: Database) -> None:
    assert await say(db, "pairing") == await say(db, "pairing list") == "Nobody is waiting for approval."


async def test_the_list_names_everybody(db: Database) -> None:
    def prepare(tx: Transaction) -> None:
        pairing.approve(tx, "telegram", asks(tx), "guest", LIMITS, by="test")
        asks(tx, "43")
        members.revoke(tx, "telegram", "44", owner_users=(), allowed_users=(), by="test")
        pairing.invite(tx, "telegram", "owner", LIMITS, by="test")
        for _ in range(5):
            pairing.approve(tx, "discord", "22222222", "member", LIMITS, by="test")

    await db.write(prepare)
    assert (await say(db, "pairing")).splitlines() == [
        "Ada (telegram:43) asked 1 second ago; the code is good for 1 hour.",
        "Ada (telegram:42) has access as guest.",
        "44 (telegram:44) no longer has access.",
        "Pairing on discord is locked for 1 hour.",
        "Open invite on telegram with the role owner, valid for 1 hour.",
    ]


@pytest.mark.parametrize(
    ("form", "role"),
    [
        ("{}", "member"),
        ("{} guest", "guest"),
        ("telegram {} OWNER", "owner"),
        ("telegram@work {}", "member"),
        ("{half} {rest}", "member"),
    ],
)
@pytest.mark.parametrize("account", ["telegram@work"])
async def test_approving_from_a_chat(db: Database, form: str, role: Role, account: str) -> None:
    code = await db.write(lambda tx: asks(tx, account=account))
    said = await say(db, "pairing approve " + form.format(code, half=code[:4].lower(), rest=code[4:]))
    assert said == f"Ada ({account}:42) is in as {role} and has been told. To undo this: /pairing revoke {account} 42"
    assert (await db.read(lambda tx: people.read_status(tx, account, "42", ""))).paired_as == role


async def test_an_approval_from_a_chat_counts_against_the_same_limits(db: Database) -> None:
    code = await db.write(lambda tx: asks(tx))
    for _ in range(5):
        await say(db, "pairing approve 22222222")
    assert "hermes pairing unlock telegram" in await say(db, f"pairing approve {code}")
    assert "on the machine itself" in await say(db, "pairing unlock")
    assert "locked" in await say(db, f"pairing approve {code}")


async def test_on_the_page_a_platform_must_be_named(db: Database) -> None:
    code = await db.write(lambda tx: asks(tx))
    assert await say(db, f"pairing approve {code}", key=PAGE) == "Name the platform: /pairing approve telegram CODE"
    assert (await say(db, f"pairing approve telegram {code}", key=PAGE)).startswith("Ada (telegram:42) is in")
    assert await say(db, "pairing revoke 42", key=PAGE) == (
        "Name the platform and the person: /pairing revoke telegram 123456789"
    )


def door(db: Database) -> Intake:
    command_runner = CommandRunner(commands=Commands(access_commands(RULES, LIMITS)), model_name="m")
    return Intake(db=db, rules=RULES, handle_unkept=command_runner.handle_unkept)


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ("/pairing approve {}", "/pairing approve [not kept]"),
        ("/pairing approve 22222222", "/pairing approve [not kept]"),
        ("/pairing {}", "/pairing [not kept]"),
    ],
)
async def test_a_code_typed_into_a_chat_is_never_written_down(db: Database, text: str, row: str) -> None:
    """Right or wrong: not in a row, and not in the log of the database either."""
    said = text.format(await db.write(lambda tx: asks(tx)))
    await door(db).accept([stranger("7", said)], None, account="telegram", local=False)
    [(parts, outcome)] = await rows(db, "SELECT parts, outcome FROM inbox")
    assert (load_parts(parts), outcome) == ((Text(text=row),), "answered")
    assert await rows(db, "SELECT COUNT(*) FROM outbox WHERE kind = 'answer'") == [(1,)]
    for file in db.path.parent.iterdir():
        assert said.rpartition(" ")[2].encode() not in file.read_bytes()


async def test_a_broken_command_with_a_code_is_told_and_taken(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    def break_down(*arguments: object, **named: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(pairing, "approve", break_down)
    await door(db).accept([stranger("7", "/pairing approve ABCD2345")], None, account="telegram", local=False)
    assert await rows(db, "SELECT state, outcome FROM inbox") == [("done", "failed")]


async def test_an_invite_sent_by_somebody_who_is_in_is_neither_kept_nor_used_up(db: Database) -> None:
    code = await db.write(lambda tx: pairing.invite(tx, "telegram", "member", LIMITS, by="test"))
    await door(db).accept([stranger("7", code)], None, account="telegram", local=False)
    assert await rows(db, "SELECT parts, state FROM inbox") == [("[]", "done")]
    assert await rows(db, "SELECT COUNT(*) FROM pairing_invites WHERE used_ms IS NULL") == [(1,)]
    assert code not in str(await rows(db, "SELECT * FROM outbox"))


async def test_revoking_from_a_chat(db: Database) -> None:
    await db.write(lambda tx: pairing.approve(tx, "telegram", asks(tx), "member", LIMITS, by="test"))
    assert await say(db, "pairing revoke Ada") == (
        "Ada (42) may no longer talk to me. "
        "To let them in again, create an invite on the machine itself: hermes pairing invite telegram"
    )
    assert (await db.read(lambda tx: people.read_status(tx, "telegram", "42", ""))).revoked


async def test_nobody_locks_themselves_or_a_configured_owner_out(db: Database) -> None:
    assert "cannot revoke your own access" in await say(db, "pairing revoke 7")
    assert "access.owner_users" in await say(db, "pairing revoke 7", sender="8")
    assert not (await db.read(lambda tx: people.read_status(tx, "telegram", "7", ""))).revoked


async def test_revoking_says_when_an_allowlist_names_them(db: Database) -> None:
    rules = Rules(allowed_users=frozenset({"telegram:42"}))
    assert "They are also on an allowlist" in await say(db, "pairing revoke 42", rules=rules)


@pytest.mark.parametrize(
    ("command", "key", "said", "left"),
    [
        ("pairing clear", DM, "2 requests are forgotten", 1),
        ("pairing clear telegram@work", DM, "1 request is forgotten", 2),
        ("pairing clear", PAGE, "3 requests are forgotten", 0),
    ],
)
async def test_clearing(db: Database, command: str, key: SessionKey, said: str, left: int) -> None:
    accounts = ("telegram", "telegram@work", "discord")
    await db.write(lambda tx: [asks(tx, account=account) for account in accounts])
    assert (await say(db, command, key=key)).startswith(said)
    assert len((await db.read(lambda tx: pairing.overview(tx, LIMITS))).pending) == left


async def test_clearing_voids_invites_too(db: Database) -> None:
    platforms = ("telegram", "telegram@work", "discord")
    await db.write(lambda tx: [pairing.invite(tx, name, "member", LIMITS, by="test") for name in platforms])
    assert await say(db, "pairing clear") == "2 invites are forgotten and their codes are void."
    assert [one.platform for one in (await db.read(lambda tx: pairing.overview(tx, LIMITS))).invites] == ["discord"]
    assert await say(db, "pairing clear") == "Nobody was waiting to be let in, and no invite was open."


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("discord", "There is no platform 'discord'. Known here: telegram."),
        ("telegran", "There is no platform 'telegran'. Did you mean telegram?"),
        ("telegram please", "There is no platform 'please'. Known here: telegram."),
    ],
)
async def test_clearing_something_else_clears_nothing(db: Database, word: str, said: str) -> None:
    await db.write(lambda tx: asks(tx))
    assert await say(db, f"pairing clear {word}") == said
    assert len((await db.read(lambda tx: pairing.overview(tx, LIMITS))).pending) == 1


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ("{} boss", "There is no role 'boss', so nobody was let in. The roles are owner, member, guest."),
        ("telegram {half} {rest} boss", "There is no role 'boss'"),
        ("telegramm {}", "Did you mean telegram?"),
    ],
)
async def test_a_slip_beside_a_right_code_is_no_wrong_code(db: Database, form: str, said: str) -> None:
    code = await db.write(lambda tx: asks(tx))
    assert said in await say(db, "pairing approve " + form.format(code, half=code[:4], rest=code[4:]))
    assert await rows(db, "SELECT COUNT(*) FROM pairing_failures") == [(0,)]
    assert (await say(db, f"pairing approve {code}")).startswith("Ada (telegram:42) is in as member")


async def test_a_lock_is_named_by_the_platform_it_holds_for(db: Database) -> None:
    await db.write(lambda tx: asks(tx, account="telegram@work"))
    said = await say(db, "pairing approve telegram@work 22222222")
    assert "Nobody on telegram@work is waiting with that code" in said
    assert said.endswith("lock approval on telegram.")
    for _ in range(4):
        await say(db, "pairing approve telegram@work 22222222", key=PAGE)
    assert (await say(db, "pairing unlock", key=PAGE)).endswith("hermes pairing unlock telegram")


async def test_revoking_nobody_says_how(db: Database) -> None:
    assert await say(db, "pairing revoke") == "Name the person: /pairing revoke 123456789"


async def test_an_invite_is_not_made_where_it_would_be_kept(db: Database) -> None:
    assert (await say(db, "pairing invite")).endswith("hermes pairing invite telegram")
    assert (await db.read(lambda tx: pairing.overview(tx, LIMITS))).invites == ()


@pytest.mark.parametrize("command", ["pairing approve", "pairing revoke", "pairing frobnicate"])
async def test_what_is_incomplete_is_answered_with_how_to_say_it(db: Database, command: str) -> None:
    assert "/pairing " in await say(db, command)
    assert await rows(db, "SELECT COUNT(*) FROM pairing_failures") == [(0,)]


async def test_a_group_is_opened_and_closed(db: Database) -> None:
    async def is_open() -> bool:
        return (await db.read(lambda tx: people.read_status(tx, "telegram", "1", "-100"))).chat_allowed

    assert "was not open" in await say(db, "allow off", key=GROUP)
    assert "Everyone in this group" in await say(db, "allow here", key=GROUP)
    assert await is_open()
    assert "is closed" in await say(db, "allow off", key=GROUP)
    assert not await is_open()
    assert "/allow here" in await say(db, "allow", key=GROUP)
    assert not await is_open()


async def test_a_group_that_the_config_opens_stays_open(db: Database) -> None:
    rules = Rules(allowed_chats=frozenset({"telegram:-100"}))
    assert "access.allowed_chats" in await say(db, "allow off", key=GROUP, rules=rules)


async def test_a_thread_of_an_open_channel_is_closed_in_the_channel(db: Database) -> None:
    channel = SessionKey(platform="discord", kind="channel", chat="100")
    thread = SessionKey(platform="discord", kind="thread", chat="200", within="100")
    await say(db, "allow here", key=channel)
    assert "(in an allowed chat)" in await say(db, "whoami", key=thread, role="guest", sender="5")
    assert "Send /allow off there" in await say(db, "allow off", key=thread)
    assert "is closed" in await say(db, "allow off", key=channel)
    assert "was not open" in await say(db, "allow off", key=thread)


@pytest.mark.parametrize("key", [DM, PAGE])
async def test_only_groups_can_be_opened(db: Database, key: SessionKey) -> None:
    assert "not a group" in await say(db, "allow here", key=key)
    assert await rows(db, "SELECT COUNT(*) FROM chats") == [(0,)]


async def test_the_home_is_where_it_was_set_last(db: Database) -> None:
    await say(db, "sethome", key=GROUP)
    assert "Notices on telegram are sent here" in await say(db, "sethome")
    assert await db.read(lambda tx: chats.find_home(tx, "telegram")) == "7"


@pytest.mark.parametrize(
    ("key", "role", "sender", "place", "said"),
    [
        (
            DM,
            "owner",
            "7",
            "chat",
            "You are Owner, telegram:7: owner (listed in access.owner_users).\n"
            "The id of this chat for the settings: telegram:7",
        ),
        (DM, "member", "42", "chat", "You are Owner, telegram:42: member (paired)."),
        (GROUP, "guest", "5", "chat", "You are Owner, telegram:5: guest (in an allowed chat)."),
        (
            PAGE,
            "owner",
            "me",
            "chat",
            "You are Owner, web:me: owner (came through a channel that only the owner can use).\n"
            "The id of this chat for the settings: web:main",
        ),
        (PAGE, "owner", "", "cli", "You are Owner, web: owner (came through a channel that only the owner can use)."),
    ],
)
async def test_whoami_tells_who_and_why(
    db: Database, key: SessionKey, role: Role, sender: str, place: Place, said: str
) -> None:
    await db.write(lambda tx: pairing.approve(tx, "telegram", asks(tx), "member", LIMITS, by="test"))
    await db.write(lambda tx: chats.allow(tx, "telegram", "-100", by=""))
    assert await say(db, "whoami", key=key, role=role, sender=sender, place=place) == said
