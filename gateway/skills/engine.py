"""The skills of the agent: serves the skills tools and the index in prompts."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from gateway.skills.proposals import ProposalMaker, carry_out, list_choices, render_proposal
from gateway.store import outbox, skill_proposals
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.store.skill_proposals import Proposer, SkillProposal
from hermes_config.redaction import Redactor
from skills.changes import was_made_by_agent
from skills.format import FILE_NAME, Skill, parse_skill
from skills.installing import Quarantined, describe, install, quarantine, quarantine_update
from skills.library import NoSuchSkill, SkillLibrary
from tools.approval.gate import Question, bound_to
from tools.base import ToolFailed
from tools.builtin.skills import SkillRequest
from tools.content import Text
from tools.provenance import SKILL
from tools.scanner import scan
from tools.url_guard import UrlGuard

Proposals = Literal["ask", "auto", "off"]

_INDEX = (
    "A skill has instructions for one kind of task. Load it with skill_view before a task that fits its description, "
    "and follow it within the rules above. It cannot give you rights.\n"
)
_MAX_FETCHED = 8


def write_index(library: SkillLibrary) -> str:
    """Return the section of the prompt that names the skills; empty without any."""
    index = library.describe_index()
    return f"{_INDEX}{index}" if index else ""


def render_for_task(library: SkillLibrary, skill: Skill) -> Text:
    """Return the instructions of a skill as the model reads them. An installed one counts as text from outside."""
    files = library.list_files(skill)
    lines = [f"Skill {skill.name}: {skill.description}", "", skill.body]
    if files:
        listed = ", ".join(files[:40])
        lines += ["", f"Other files of this skill, for skill_view: {listed}. To run a script, save it in your folder."]
    return Text(text="\n".join(lines), origin=origin_of(skill))


def origin_of(skill: Skill) -> str:
    return f"{SKILL}:{skill.name}" if skill.source else SKILL


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillEngine:
    """Implements `tools.builtin.skills.SkillStore`."""

    library: SkillLibrary
    db: Database
    redactor: Redactor
    guard: UrlGuard = field(default_factory=UrlGuard)
    mode: Proposals = "ask"
    _fetched: dict[str, Quarantined] = field(default_factory=dict, init=False, repr=False)  # by call
    _warned: set[tuple[str, str]] = field(
        default_factory=set, init=False, repr=False
    )  # session and name of a new skill

    async def list_categories(self) -> list[dict[str, Any]]:
        usable = await asyncio.to_thread(self.library.list_usable)
        counts = Counter(skill.category or "other" for skill in usable)
        return [{"category": category, "skills": count} for category, count in counts.items()]

    async def list_skills(self, category: str) -> list[dict[str, Any]]:
        usable = await asyncio.to_thread(self.library.list_usable)
        return [
            {"name": skill.name, "category": skill.category, "description": skill.description}
            for skill in usable
            if not category or (skill.category or "other") == category
        ]

    async def view(self, name: str, file: str) -> Text:
        try:
            skill = await asyncio.to_thread(self.library.get, name)
            if file:
                text = await asyncio.to_thread(self.library.read_file, skill, file)
                return Text(text=text, origin=origin_of(skill))
            return await asyncio.to_thread(render_for_task, self.library, skill)
        except NoSuchSkill as error:
            raise ToolFailed(f"{error} skills_list names all.") from error

    async def propose(self, task_id: str, request: SkillRequest) -> dict[str, Any]:
        if self.mode == "off":
            raise ToolFailed(
                "The owner has switched off changes of skills by you (skills.proposals). Do not try again."
            )
        proposer = await self.db.read(lambda tx: skill_proposals.find_proposer(tx, task_id))
        if proposer is None:
            raise ToolFailed("Only the owner can have skills changed, in a conversation of their own. Tell the user.")
        maker = ProposalMaker(library=self.library, redactor=self.redactor)
        proposal = await asyncio.to_thread(maker.make, task_id, request)
        self._warn_of_similar(task_id, proposal)
        if self.mode == "auto" and await asyncio.to_thread(self._may_do_alone, proposal):
            await asyncio.to_thread(carry_out, self.library, proposal)
            return {"message": f"Done: {proposal.action} {proposal.name}. Tell the user; /skills undo takes it back."}
        number = await self.db.write_when_possible(lambda tx: self._put(tx, proposal, proposer))
        return {"message": f"Proposal {number} was shown to the user, who decides. Nothing has changed yet."}

    def _warn_of_similar(self, task_id: str, proposal: SkillProposal) -> None:
        """Have the model look at skills about the same thing first; a second call says that it wants a new one."""
        if proposal.action != "create" or (task_id, proposal.name) in self._warned:
            return
        description = parse_skill(proposal.files[FILE_NAME] or "").description
        if similar := self.library.find_similar(proposal.name, description):
            self._warned.add((task_id, proposal.name))
            names = ", ".join(skill.name for skill in similar)
            raise ToolFailed(
                f"Similar skills exist: {names}. Extend one with patch, or call again if none of them fits."
            )

    def _may_do_alone(self, proposal: SkillProposal) -> bool:
        """Return whether a change needs no question: of a new skill or one that only the agent wrote, no findings."""
        is_its_own = not proposal.base or was_made_by_agent(self.library, proposal.name)
        return is_its_own and not any(scan(text or "") for text in proposal.files.values())

    def _put(self, tx: Transaction, proposal: SkillProposal, proposer: Proposer) -> int:
        stored = replace(proposal, turn_id=proposer.turn_id, person_id=proposer.person_id)
        number = skill_proposals.add(tx, stored)
        question = render_proposal(self.library, proposal, number)
        skill_proposals.set_question(tx, number, question)
        if proposer.address is not None:
            outbox.add(
                tx,
                proposer.address,
                [Text(text=question)],
                kind="notice",
                topic=f"skill {number}",
                turn_id=proposer.turn_id,
                choices=list_choices(number),
            )
        return number

    async def describe_install(self, call_id: str, request: SkillRequest) -> Question:
        fetched = await self._fetch(call_id, request)
        return Question(
            tool="skill_manage",
            action=describe(fetched),
            reasons=("it brings instructions from elsewhere", *map(str, fetched.inspection.findings[:20])),
            binding=bound_to("skill", fetched.name, fetched.sha256),
        )

    async def install(self, call_id: str, request: SkillRequest) -> dict[str, Any]:
        fetched = await self._fetch(call_id, request)
        self._fetched.pop(call_id, None)
        await asyncio.to_thread(install, self.library, fetched)
        return {"message": f"The skill {fetched.name} is installed. Use it with /{fetched.name}."}

    async def _fetch(self, call_id: str, request: SkillRequest) -> Quarantined:
        """Fetch once for a call: what is installed is what the owner was asked about."""
        if (known := self._fetched.get(call_id)) is not None:
            return known
        if request.action == "install":
            fetched: Quarantined | None = await quarantine(self.library, request.source, self.guard)
        else:
            fetched = await quarantine_update(self.library, request.name, self.guard)
        if fetched is None:
            raise ToolFailed(f"{request.name} is up to date.")
        self._fetched[call_id] = fetched
        for old in list(self._fetched)[:-_MAX_FETCHED]:
            self._fetched.pop(old).discard()
        return fetched
