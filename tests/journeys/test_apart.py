"""Two members of one bot: nothing that one of them has is shown to the other, said to them, or stopped by them."""

import asyncio
import json
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from playground.model_script import ModelAnswer, ScriptedCall, ask_for, say
from tests.journeys.stage import PATIENCE_SECONDS, code_in
from tests.journeys.telegram_stage import OWNER, Stage, stage
from tests.programs import needs

BOT = "@playground_bot"
SECRET = "heliotrope"  # Ada's word, which Bob must not meet anywhere
LIMIT_TOKENS = 60_000
CONFIG = {"budgets": {"user_tokens": LIMIT_TOKENS}, "sessions": {"group_scope": "per_user"}}


async def test_of_two_members_neither_reaches_what_is_the_others(tmp_path: Path) -> None:
    async with stage(tmp_path, config=CONFIG) as on:
        owner, ada, bob = on.person("Olga", id=OWNER), on.person("Ada"), on.person("Bob")
        group = on.people.make_group("Friends", members=[owner, ada, bob])["id"]
        async with on.gateway() as running:
            await _let_in(on, ada, bob)
            await on.ask(owner, f"/allow{BOT} here", "Everyone", chat=group)
            await _conversation_and_todos(on, ada, bob)
            await _old_conversations(on, ada, bob)
            await _what_runs(on, ada, bob)
            await _side_by_side_in_a_group(on, group, ada, bob)
            await _what_was_spent(on, owner, ada, bob)
            assert SECRET not in "".join(on.telegram.texts(bob))
            await running.stop()


TRACES = {  # what Ada leaves in her private chat
    "memory": {"action": "set", "key": "flower", "value": f"Ada likes {SECRET} by the window"},
    "todo": {"action": "create", "content": f"buy {SECRET}"},
    "cronjob": {"action": "create", "name": "watering", "schedule": "every day at 09:00", "prompt": f"water {SECRET}"},
    "file_write": {"path": "notes.txt", "content": f"{SECRET} by the window"},
}
READS: dict[
    str, list[dict[str, str]]
] = {  # every tool that members have, and how it might be asked for what is somebody else's
    "clock": [{}],
    "cronjob": [{"action": "list"}, {"action": "history"}, {"action": "run", "name": "watering"}],
    "memory": [{"action": "get", "key": "flower"}, {"action": "list"}, {"action": "search", "query": "Ada window"}],
    "session_search": [{"query": "likes by the window"}, {"query": "water", "person": "Ada"}],
    "todo": [{"action": "list"}],
}
READS_OF_A_WORKSPACE: dict[str, list[dict[str, str]]] = {
    "file_read": [{"path": "notes.txt"}],
    "file_search": [{"pattern": "window"}, {"pattern": "window", "path": "/"}],
    "file_patch": [{"path": "notes.txt", "old_string": "window", "new_string": "door"}],
    "file_write": [{"path": "mine.txt", "content": "window"}],
    "process": [{"action": "list"}],
    "skill_manage": [{"action": "delete", "name": "token-usage"}],
    "skill_view": [{"name": "token-usage"}],
    "skills_categories": [{}],
    "skills_list": [{}],
    "terminal": [{"command": "cat ~/notes.txt ../*/notes.txt; grep -rs window ~ .."}],
}
ASKED_MUCH = {"access": {"messages_per_minute": 0}, "agent": {"enabled_toolsets": ["core", "session"]}}
COMMANDS = (
    *("/memory", "/memory search window", "/memory why flower", "/memory forget flower", "/memory undo"),
    *("/cron", "/cron history", "/cron run watering", "/cron remove watering"),
    *("/search window", "/sessions", "/resume window", "/history", "/status", "/usage", "/tools", "/retry", "/undo"),
)


@needs("bubblewrap")  # without it, members have no tools for files and commands
async def test_no_tool_or_command_tells_one_person_or_a_group_about_another(tmp_path: Path) -> None:
    async with stage(tmp_path, config=ASKED_MUCH) as on:
        owner, ada, bob = on.person("Olga", id=OWNER), on.person("Ada"), on.person("Bob")
        group = on.people.make_group("Friends", members=[owner, ada, bob])["id"]
        async with on.gateway():
            await _let_in(on, ada, bob)
            await on.ask(owner, f"/allow{BOT} here", "Everyone", chat=group)
            on.model.script(_call(TRACES.items()), say("All of it is noted."))
            await on.ask(ada, f"by the window I like {SECRET}", "All of it is noted.")
            assert on.home.rows("SELECT key FROM memories") == [("flower",)]
            offered = {tool["function"]["name"] for tool in on.model.bodies[-1]["tools"]}
            assert offered == {*READS, *READS_OF_A_WORKSPACE}
            for answer, person, chat in (("One.", bob, bob), ("Two.", bob, group), ("Three.", ada, group)):
                # Her own workspace is hers in a group too.
                asked = READS if person == ada else READS | READS_OF_A_WORKSPACE
                on.model.script(_call((name, way) for name, ways in asked.items() for way in ways), say(answer))
                await on.ask(person, f"{BOT} look everywhere", answer, chat=chat)
                assert SECRET not in on.model.words()
                for command in COMMANDS:
                    name, _, rest = command.partition(" ")
                    assert SECRET not in await _told(on, person, f"{name}{BOT} {rest}", chat=chat), command
            assert SECRET not in "".join((*on.telegram.texts(bob), *on.telegram.texts(group)))
            on.model.script(say("Hello, Olga."))
            await on.ask(owner, f"{BOT} hello", "Hello, Olga.", chat=group)
            await on.home.hermes("export", str(tmp_path / "owners.zip"))
            with zipfile.ZipFile(tmp_path / "owners.zip") as exported:
                assert not any(SECRET.encode() in exported.read(name) for name in exported.namelist())
            assert SECRET not in await on.home.hermes("memory", "list")
            assert "flower" in await _told(on, ada, "/memory")


def _call(calls: Iterable[tuple[str, Mapping[str, str]]]) -> ModelAnswer:
    made = enumerate(calls)
    return ask_for(*(ScriptedCall(name=name, id=f"c{at}", arguments=json.dumps(way)) for at, (name, way) in made))


async def _let_in(on: Stage, *people: int) -> None:
    printed = await asyncio.gather(*(on.home.hermes("pairing", "invite", "telegram") for _ in people))
    for person, invite in zip(people, printed, strict=True):
        await on.ask(person, f"/start {code_in(invite)}", "You are in, as a member")


def _todo(action: str, **arguments: str) -> ModelAnswer:
    return ask_for(ScriptedCall(name="todo", arguments=json.dumps({"action": action, **arguments})))


async def _conversation_and_todos(on: Stage, ada: int, bob: int) -> None:
    on.model.script(_todo("create", content=f"buy {SECRET}"), say("It is on your list."))
    await on.ask(ada, f"my word is {SECRET}", "It is on your list.")
    assert SECRET in on.model.words()

    on.model.script(_todo("list"), say("Your list is empty."))
    await on.ask(bob, "what is on my list, and what did Ada say?", "Your list is empty.")
    assert '"todos": []' in on.model.newest_words()
    assert SECRET not in on.model.words()


async def _old_conversations(on: Stage, ada: int, bob: int) -> None:
    [(hers,)] = on.home.rows("SELECT id FROM sessions WHERE chat = ?", str(ada))
    assert hers in await _told(on, ada, "/status")
    assert hers not in await _told(on, bob, "/status")
    await on.ask(ada, "/new", "A new conversation begins")
    for name in (hers, SECRET, ""):
        assert await _told(on, bob, f"/resume {name}") == "There is no old conversation in this chat."
    await on.ask(ada, f"/resume {SECRET}", "You are back in")


async def _what_runs(on: Stage, ada: int, bob: int) -> None:
    on.model.may_answer.clear()
    on.model.script(say("It took a while."))
    asked = len(on.model.requests)
    on.say(ada, "think about it")
    await on.model.until_asked(asked + 1)
    assert await _told(on, bob, "/stop all") == "Nothing is running."
    assert "A turn is running" in await _told(on, ada, "/status")
    assert "A turn is running" not in await _told(on, bob, "/status")
    on.model.may_answer.set()
    await on.hear(ada, "It took a while.")


async def _side_by_side_in_a_group(on: Stage, group: int, ada: int, bob: int) -> None:
    on.model.script(say("Only for Ada."))
    said = on.say(ada, f"{BOT} and here my word is {SECRET}", chat=group)
    answer = await on.hear(group, "Only for Ada.")
    on.model.script(say("Only for Bob."))
    await on.ask(bob, f"{BOT} what did she say?", "Only for Bob.", chat=group)
    assert SECRET not in on.model.words()

    for message in (said, answer["message_id"]):
        assert (await _told(on, ada, f"/why{BOT}", chat=group, reply_to=message)).startswith("Answered in ")
        assert await _told(on, bob, f"/why{BOT}", chat=group, reply_to=message) == "I have no record of that message."

    await on.ask(ada, f"/new{BOT}", "A new conversation begins", chat=group)
    offered = await on.ask(ada, f"/resume{BOT}", "Conversations to go back to", chat=group)
    [[button]] = offered["reply_markup"]["inline_keyboard"]
    on.people.press(group, bob, offered["message_id"], data=button["callback_data"])
    await on.hear(group, "That conversation no longer exists.")


async def _what_was_spent(on: Stage, owner: int, ada: int, bob: int) -> None:
    on.model.script(say("A long one.", usage={"prompt_tokens": LIMIT_TOKENS, "completion_tokens": 1}))
    await on.ask(ada, "read all of it", "A long one.")
    await on.hear(ada, "Your budget for today is 10")  # so many percent used
    asked = len(on.model.requests)
    await on.ask(ada, "and more", "Your budget for today is used up")
    await on.ask(ada, "/why", "the budget is used up")
    assert len(on.model.requests) == asked

    on.model.script(say("Still here, Bob."))
    await on.ask(bob, "are you there?", "Still here, Bob.")
    [(his,)] = on.home.rows(
        """SELECT SUM(input_tokens + output_tokens) FROM spending s JOIN identities i USING (person_id)
            WHERE i.user_id = ?""",
        str(bob),
    )
    told = await _told(on, bob, "/usage")
    assert f"You today: {his:,} of {LIMIT_TOKENS:,} tokens" in told
    assert "Everybody" not in told
    assert "Everybody today: " in await _told(on, owner, "/usage")


async def _told(on: Stage, user: int, text: str, *, chat: int = 0, **options: int) -> str:
    """What the bot says next."""
    said = on.say(user, text, chat=chat, **options)

    def answer() -> str:
        shown = [one for one in on.telegram.show(chat or user) if one["message"]["message_id"] > said and one["by_bot"]]
        return shown[0]["text"] if shown else ""

    return await on.telegram.wait_for(answer, seconds=PATIENCE_SECONDS)
