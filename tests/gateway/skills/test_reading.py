"""Skills as people and the agent find and load them."""

import pytest

from agent_core.conversation import Message
from agent_core.provenance import read_provenance
from gateway.commands.catalog import make_commands
from gateway.commands.registry import CommandCall, CommandReply
from gateway.commands.skills import SkillCommands
from gateway.messages import SessionKey
from gateway.policies.access import Role
from gateway.skills.engine import SkillEngine
from gateway.store.db.database import Database
from gateway.turns.prompts import Prompts
from hermes_config.redaction import Redactor
from skills.library import SkillLibrary
from tests.skills.writing import write_skill
from tools.base import ToolContext, ToolFailed
from tools.builtin.skills import skill_tools
from tools.content import text_of, words_of
from tools.provenance import SKILL

DM = SessionKey(platform="telegram", kind="dm", chat="1")


async def use(db: Database, library: SkillLibrary, text: str, role: Role = "owner") -> CommandReply:
    name, _, arguments = text.partition(" ")
    commands = make_commands(skills=SkillCommands(library=library))
    call = CommandCall(key=DM, name=name, arguments=arguments, role=role)
    return await db.write(lambda tx: commands.run(tx, call))


async def test_skills_are_listed_searched_and_inspected(db: Database, library: SkillLibrary) -> None:
    assert "no skills yet" in (await use(db, library, "skills")).text
    write_skill(library.root, "home/plants", references__fern_md="Little light.")
    write_skill(library.root, "broken", "---\nname: [\n---\n")
    listed = (await use(db, library, "skills list")).text
    assert "**home**\n- /plants: Use for plants." in listed
    assert "Not offered:\n- broken: SKILL.md line" in listed
    assert "Not offered" not in (await use(db, library, "skills", "member")).text
    assert "/plants" in (await use(db, library, "skills search plant")).text
    assert "No skill fits" in (await use(db, library, "skills search zebra")).text
    shown = (await use(db, library, "skills inspect plants")).text
    assert "Do it." in shown
    assert "references/fern.md" in shown
    assert "Did you mean plants" in (await use(db, library, "skills inspect plant")).text
    assert (await use(db, library, "skills frobnicate")).text.startswith("Use /skills [")


async def test_a_skill_is_a_command_that_loads_it_as_a_user_message(db: Database, library: SkillLibrary) -> None:
    write_skill(library.root, "water-plants")
    for text in ("water-plants only the fern", "water_plants only the fern"):
        reply = await use(db, library, text)
        assert reply.starts is not None
        loaded, asked = reply.starts.parts
        assert "Do it." in str(loaded)
        assert loaded.origin == SKILL
        assert words_of(reply.starts.parts) == "only the fern"
    assert asked.origin == ""
    alone = await use(db, library, "water-plants")
    assert alone.starts is not None
    assert words_of(alone.starts.parts) == "Use the skill water-plants now."
    message = Message(role="user", parts=alone.starts.parts)
    assert read_provenance([message], []).outside == ()  # a skill of the owner is not from outside
    assert (await use(db, library, "water-plant")).refused
    assert (await use(db, library, "water-plants", "guest")).refused
    write_skill(library.root, "help")  # our own commands win
    assert (await use(db, library, "help")).starts is None


async def test_the_agent_goes_from_categories_to_one_file(db: Database, library: SkillLibrary) -> None:
    write_skill(library.root, "home/plants", references__fern_md="Little light.")
    write_skill(library.root, "taxes")
    tools = {tool.name: tool for tool in skill_tools(SkillEngine(library=library, db=db, redactor=Redactor()))}
    context = ToolContext(task_id="t")
    categories = await tools["skills_categories"].run("{}", context)
    assert categories == [{"category": "other", "skills": 1}, {"category": "home", "skills": 1}]
    listed = await tools["skills_list"].run('{"category": "home"}', context)
    assert listed == [{"name": "plants", "category": "home", "description": "Use for plants."}]
    assert len(await tools["skills_list"].run("{}", context)) == 2
    text = str(await tools["skill_view"].run('{"name": "plants"}', context))
    assert "Do it." in text
    assert "references/fern.md" in text
    file = await tools["skill_view"].run('{"name": "plants", "file": "references/fern.md"}', context)
    assert "Little light." in str(file)
    for wrong in ('{"name": "plantz"}', '{"name": "plants", "file": "../../taxes/SKILL.md"}'):
        with pytest.raises(ToolFailed, match="skills_list names all"):
            await tools["skill_view"].run(wrong, context)


async def test_the_prompt_names_skills_where_they_can_be_loaded(db: Database, library: SkillLibrary) -> None:
    tools = skill_tools(SkillEngine(library=library, db=db, redactor=Redactor()))
    prompts = Prompts(db=db, soul=library.root, project=library.root, hints={}, list_skills=lambda: "- plants: x")
    assert "# Skills\n- plants: x" in text_of(prompts._build("cli", tools, True, "", ""))
    assert "# Skills" not in text_of(prompts._build("cli", (), True, "", ""))
