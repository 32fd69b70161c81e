"""/model, /personality, /tools and /toolsets: choices for one conversation."""

import asyncio

import pytest

from agent_core.models.catalog import ModelCatalog, ModelListUnavailable
from agent_core.models.providers import Endpoint
from agent_core.prompt import PERSONALITIES
from gateway.commands.agent import AgentOptions
from gateway.commands.catalog import make_commands
from gateway.commands.registry import CommandCall, Commands
from gateway.messages import SessionKey
from gateway.policies.access import Role
from gateway.store import sessions
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.store.sessions import NO_CHOICE, SessionSettings
from hermes_config.settings import PreferencesSettings
from tests.gateway.scene import PacedModel, inbound, make_small, rows, running
from tools.loading import load_builtin
from tools.toolsets import ToolChoice

DM = SessionKey(platform="telegram", kind="dm", chat="1")
GROUP = SessionKey(platform="telegram", kind="group", chat="-1")
ENDPOINT = Endpoint(provider="Example", model="big", base_url="http://127.0.0.1:1/v1")


def commands(
    *, offered: tuple[str, ...] = ("big", "small", "small-fast"), in_use: str = "big", tools: ToolChoice | None = None
) -> Commands:
    catalog = ModelCatalog(("big", "spare"), ENDPOINT)
    catalog.offered = offered
    tools = tools or ToolChoice(registry=load_builtin(), disabled=("clock",))
    return make_commands(agent=AgentOptions(models=catalog, tools=tools, model_in_use=lambda: in_use))


def use(tx: Transaction, text: str, *, key: SessionKey = DM, role: Role = "owner", of: Commands | None = None) -> str:
    name, _, arguments = text.partition(" ")
    call = CommandCall(key=key, name=name, arguments=arguments, role=role)
    return (of or commands()).run(tx, call).text


def chosen(tx: Transaction, key: SessionKey = DM) -> SessionSettings:
    return sessions.read_settings(tx, sessions.open_current(tx, key).id)


@pytest.mark.parametrize(
    ("text", "role", "told", "model"),
    [
        (
            "model small",
            "owner",
            "Model: small, from your next message until the next /new.",
            "small",
        ),
        (
            "model SPARE",
            "member",
            "Model: spare, from your next message until the next /new.",
            "spare",
        ),
        ("model small", "member", "Only owners can choose small. You can choose: big, spare.", ""),
        ("model small", "guest", "Only owners and members can change the model.", ""),
        ("model default", "owner", "Back to the default model big, from your next message on.", ""),
        ("model smal", "owner", "There is no model “smal”. Did you mean small or small-fast?", ""),
        ("model bigg", "owner", "There is no model “bigg”. Did you mean big?", ""),
        ("model zzz", "owner", "There is no model “zzz”. /model lists all.", ""),
    ],
)
def test_a_model_is_chosen_for_this_conversation(tx: Transaction, text: str, role: Role, told: str, model: str) -> None:
    assert use(tx, text, role=role) == told
    assert chosen(tx).model == model


def test_the_models_are_listed_with_the_fallback_in_use(tx: Transaction) -> None:
    assert use(tx, "model", of=commands(in_use="spare")).splitlines() == [
        "Model: big",
        "Fallbacks, when it cannot answer: spare",
        "spare answers at the moment, because big failed a short time ago.",
        "Example offers 3:",
        "- big",
        "- small",
        "- small-fast",
        "",
        "Choose one for this conversation with /model NAME; /model default goes back.",
    ]
    use(tx, "model small")
    assert use(tx, "model").startswith("Model: small, chosen for this conversation (default: big)\n")
    many = commands(offered=tuple(f"model-{number:03}" for number in range(300)))
    assert "… and 280 more. Find one with /model and a part of its name." in use(tx, "model", of=many)


class SlowServer:
    """Lists its models once the test lets it, or fails."""

    def __init__(self, answer: list[str] | Exception) -> None:
        self.answer = answer
        self.asked = 0
        self.may_answer = asyncio.Event()

    async def __call__(self, endpoint: Endpoint, timeout_seconds: float) -> list[str]:
        self.asked += 1
        await self.may_answer.wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


async def test_the_list_is_fetched_while_other_chats_are_answered(db: Database) -> None:
    """No transaction waits for the network: the command's row stays open until the list is there."""
    server = SlowServer(["huge", "big"])
    catalog = ModelCatalog(("big",), ENDPOINT, list_models=server)
    options = AgentOptions(models=catalog, tools=ToolChoice(registry=load_builtin()))
    async with asyncio.TaskGroup() as group:
        fetching = group.create_task(catalog.run())
        await asyncio.sleep(0)
        async with running(make_small(db, PacedModel(), commands=make_commands(agent=options))) as small:
            await small.say(inbound("/model huge"), inbound("/whoami", chat="other", message_id="2"))
            assert "You are Ada" in await small.answer()
            assert await rows(db, "SELECT chat FROM inbox WHERE state = 'ready'") == [("home",)]
            server.may_answer.set()
            assert (await small.answer()).startswith("Model: huge,")
            await small.say(inbound("/model", message_id="3"))
            assert "- huge" in await small.answer()
        fetching.cancel()
    assert server.asked == 1  # remembered


@pytest.mark.parametrize(
    ("problem", "told"),
    [
        (ModelListUnavailable("it answered 401"), "Example did not list its models: it answered 401"),
        (TimeoutError(), "Example did not list its models within 5 s"),
    ],
)
async def test_without_a_list_the_configured_models_can_still_be_chosen(
    db: Database, problem: Exception, told: str
) -> None:
    server = SlowServer(problem)
    server.may_answer.set()
    catalog = ModelCatalog(("big", "spare"), ENDPOINT, list_models=server)
    await catalog.refresh()
    of = make_commands(agent=AgentOptions(models=catalog, tools=ToolChoice(registry=load_builtin())))
    shown = await db.write(lambda tx: use(tx, "model", of=of))
    assert f"\n{told}.\n" in shown
    assert (await db.write(lambda tx: use(tx, "model spare", of=of))).startswith("Model: spare,")
    assert (await db.write(lambda tx: use(tx, "model huge", of=of))).endswith(f"({told}.)")


@pytest.mark.parametrize(
    ("text", "told", "name"),
    [
        (
            "personality concise",
            "Personality: concise, from your next message until the next /new. /personality default goes back.",
            "concise",
        ),
        (
            "personality Teacher",
            "Personality: teacher, from your next message until the next /new. /personality default goes back.",
            "teacher",
        ),
        ("personality default", "Back to the default personality, from your next message on.", ""),
        ("personality techer", "There is no personality “techer”. Did you mean teacher?", ""),
    ],
)
def test_a_personality_is_chosen(tx: Transaction, text: str, told: str, name: str) -> None:
    assert use(tx, text) == told
    assert chosen(tx).personality == name


def test_personalities_are_listed(tx: Transaction) -> None:
    listed = use(tx, "personality").splitlines()
    assert listed[0] == "Personality: default (SOUL.md in the home, if there is one). Available:"
    assert "- concise: Answer in as few words as the matter allows." in listed
    use(tx, "personality friendly")
    assert use(tx, "personality").startswith("Personality: friendly. Available:")


def test_a_choice_of_tools_or_personality_builds_the_prompt_anew(tx: Transaction) -> None:
    session = sessions.open_current(tx, DM)
    for text, is_kept in (("verbose all", True), ("model small", True), ("personality concise", False)):
        sessions.fix_prompt(tx, session.id, ())
        use(tx, text)
        assert (sessions.prompt(tx, session.id) is not None) == is_kept


@pytest.mark.parametrize(
    ("text", "told", "toolsets"),
    [
        (
            "toolsets off file",
            "file is off, from your next message until the next /new. Toolsets that are on: cron, memory, skills, "
            "terminal, todo.",
            ("cron", "memory", "skills", "terminal", "todo"),
        ),
        (
            "tools off file",
            "file is off, from your next message until the next /new. Toolsets that are on: cron, memory, skills, "
            "terminal, todo.",
            ("cron", "memory", "skills", "terminal", "todo"),
        ),
        (
            "toolsets off core",
            "core is off, from your next message until the next /new. Toolsets that are on: none.",
            ("none",),
        ),
        (
            "toolsets on messaging",
            "messaging is on, from your next message until the next /new. Toolsets that are on: cron, file, "
            "memory, messaging, skills, terminal, todo.",
            ("cron", "file", "memory", "messaging", "skills", "terminal", "todo"),
        ),
        ("toolsets on clock", "The settings switch clock off (agent.disabled_toolsets).", ()),
        (
            "toolsets on file",
            "file is on, from your next message until the next /new. Toolsets that are on: cron, file, memory, "
            "skills, terminal, todo.",
            (),
        ),
        ("toolsets on fiel", "There is no toolset “fiel”. Did you mean file?", ()),
        ("toolsets on", "Name a toolset, such as /toolsets on terminal. /toolsets lists them.", ()),
        ("toolsets mix", "/toolsets cannot do that. Use /toolsets on NAME, off NAME or default.", ()),
        ("toolsets default", "Back to the default toolsets: core.", ()),
    ],
)
def test_toolsets_are_switched(tx: Transaction, text: str, told: str, toolsets: tuple[str, ...]) -> None:
    assert use(tx, text) == told
    assert chosen(tx).toolsets == toolsets


@pytest.mark.parametrize(
    ("key", "role", "may"),
    [(DM, "owner", True), (DM, "member", False), (GROUP, "owner", False), (GROUP, "member", False)],
)
def test_only_an_owner_alone_switches_on_what_the_settings_do_not_offer(
    tx: Transaction, key: SessionKey, role: Role, may: bool
) -> None:
    told = use(tx, "toolsets on messaging", key=key, role=role)
    assert told.startswith("messaging is on") == may
    assert ("messaging" in chosen(tx, key).toolsets) == may
    assert use(tx, "toolsets off file", key=key, role=role).startswith("file is off")
    assert use(tx, "toolsets on file", key=key, role=role).startswith("file is on")


@pytest.mark.parametrize("text", ["toolsets off file", "personality concise", "verbose all", "model spare"])
def test_guests_of_a_group_change_nothing(tx: Transaction, text: str) -> None:
    assert use(tx, text, key=GROUP, role="guest").startswith("Only owners and members can change")
    assert chosen(tx, GROUP) == SessionSettings()


def test_tools_are_listed_with_why_they_are_off(tx: Transaction) -> None:
    for text in ("tools", "tools list"):
        lines = use(tx, text).splitlines()
        assert lines[0] == "Tools in this conversation:"
        assert "- file_read (file)" in lines
        assert "- send_message: toolset messaging is not enabled" in lines
        assert lines[-1] == "Switch groups of them on or off with /toolsets."
    use(tx, "toolsets off core")
    assert use(tx, "tools").startswith("I have no tools in this conversation.\n\nOff:\n")


def test_each_platform_has_its_own_toolsets(tx: Transaction) -> None:
    tools = ToolChoice(
        registry=load_builtin(), by_platform={"telegram": ("todo",), "cli": ("hermes-telegram", "clock")}
    )
    tools.check()
    assert {tool.toolset for tool in tools.select("telegram")} == {"todo"}
    assert {tool.toolset for tool in tools.select("cli")} == {"todo", "clock"}
    assert {"terminal", "file", "todo"} <= {tool.toolset for tool in tools.select("discord")}
    listed = use(tx, "toolsets", of=commands(tools=tools))
    assert "- todo: on (" in listed
    assert "- terminal: off (" in listed
    assert use(tx, "terminal ls", of=commands(tools=tools)) == (
        "The terminal is off in this conversation: toolset terminal is not enabled."
    )


@pytest.mark.parametrize(
    ("role", "key", "is_theirs"), [("owner", DM, True), ("member", DM, False), ("owner", GROUP, False)]
)
def test_preferences_are_the_default_in_the_owners_own_conversations(
    tx: Transaction, role: Role, key: SessionKey, is_theirs: bool
) -> None:
    preferred = SessionSettings(model="small", personality="concise")
    catalog = ModelCatalog(("big", "spare"), ENDPOINT)
    catalog.offered = ("big", "small")
    tools = ToolChoice(registry=load_builtin())
    of = make_commands(agent=AgentOptions(models=catalog, tools=tools, preferences=preferred))
    assert use(tx, "model", key=key, role=role, of=of).startswith(f"Model: {'small' if is_theirs else 'big'}\n")
    assert ("Personality: concise." in use(tx, "personality", key=key, role=role, of=of)) == is_theirs
    assert use(tx, "model big", key=key, role=role, of=of).startswith("Model: big, ")
    assert chosen(tx, key).over(preferred if is_theirs else NO_CHOICE) == SessionSettings(
        model="big" if is_theirs else "", personality="concise" if is_theirs else ""
    )


def test_every_personality_can_be_preferred() -> None:
    for name in ("default", *PERSONALITIES):
        assert PreferencesSettings.model_validate({"personality": name}).personality == name
