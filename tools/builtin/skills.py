"""The skills tools: find instructions for a task step by step, and propose new ones. What there is, its store knows."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Protocol

from pydantic import Field

from tools.approval.gate import Question
from tools.arguments import Arguments
from tools.base import Tool, ToolContext, absent
from tools.content import Part, Text
from tools.registry import build_tool, registry

SkillAction = Literal["create", "edit", "patch", "delete", "install", "update"]


class SkillRequest(Arguments):
    action: Annotated[
        SkillAction,
        Field(
            description="create: new skill. edit: replace the text. patch: replace old_text by new_text. delete. "
            "install: from source. update: installed skill from its source."
        ),
    ]
    name: Annotated[str, Field(description="Lower-case letters, digits and hyphens, such as backup-photos.")] = ""
    content: Annotated[
        str,
        Field(
            description="SKILL.md for create and edit: frontmatter with name and description, then the sections "
            "Trigger Conditions, Prerequisites, Steps, Pitfalls, Verification as ## headings."
        ),
    ] = ""
    category: Annotated[str, Field(description="Folder for a new skill, such as devops.")] = ""
    file: Annotated[str, Field(description="For edit and patch: a file other than SKILL.md.")] = ""
    old_text: Annotated[str, Field(description="For patch: text that occurs once.")] = ""
    new_text: Annotated[str, Field(description="For patch: its replacement.")] = ""
    source: Annotated[str, Field(description="For install: GitHub URL or user/repo/path, folder, archive.")] = ""


class SkillStore(Protocol):
    async def list_categories(self) -> list[dict[str, Any]]: ...

    async def list_skills(self, category: str) -> list[dict[str, Any]]: ...

    async def view(self, name: str, file: str) -> Text:
        """Return the instructions, or another file, of a skill; raises ToolFailed."""

    async def propose(self, task_id: str, request: SkillRequest) -> dict[str, Any]:
        """Put a change to the owner; raises ToolFailed."""

    async def describe_install(self, call_id: str, request: SkillRequest) -> Question:
        """Fetch a skill into quarantine and return the question whether to install it; raises ToolFailed."""

    async def install(self, call_id: str, request: SkillRequest) -> dict[str, Any]:
        """Install what the question of that call was about; raises ToolFailed."""


def skill_tools(store: SkillStore) -> Sequence[Tool]:
    """Build the tools over a store of skills."""

    async def skills_categories() -> list[dict[str, Any]]:
        """List the categories of skills, with the number of skills in each."""
        return await store.list_categories()

    async def skills_list(
        category: Annotated[str, Field(description="Only skills of this category.")] = "",
    ) -> list[dict[str, Any]]:
        """List skills by name and description. Load one with skill_view."""
        return await store.list_skills(category)

    async def skill_view(
        name: Annotated[str, Field(description="Name of the skill.")],
        file: Annotated[str, Field(description="One of its other files, such as references/api.md.")] = "",
    ) -> tuple[Part, ...]:
        """Load the instructions of a skill. Do this before a task that fits its description, then follow them."""
        return (await store.view(name, file),)

    looking = (skills_categories, skills_list, skill_view)
    built = [build_tool(one, toolset="skills", brings="", for_guests=False) for one in looking]
    return [*built, _build_manager(store)]


def _build_manager(store: SkillStore) -> Tool:
    async def skill_manage(context: ToolContext, request: SkillRequest) -> dict[str, Any]:
        """Propose a new skill or a change to one; the user decides. Use it when the user asks for it, when a task of
        five or more tool calls would be worth repeating, or when a skill you followed was wrong. Look for a skill to
        extend first."""
        if request.action in ("install", "update"):
            return await store.install(context.call_id, request)
        return await store.propose(context.task_id, request)

    async def about(arguments: dict[str, object], context: ToolContext) -> Question | None:
        given = {key: value for key, value in arguments.items() if isinstance(value, str)}
        if given.get("action") not in ("install", "update"):
            return None
        action: SkillAction = "install" if given["action"] == "install" else "update"
        request = SkillRequest(action=action, name=given.get("name", ""), source=given.get("source", ""))
        return await store.describe_install(context.call_id, request)

    return build_tool(skill_manage, toolset="skills", brings="", for_guests=False, about=about)


for _tool in skill_tools(absent("There are no skills here.")):
    registry.add(_tool, module=__name__)
