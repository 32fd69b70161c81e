"""`/skills` and `/<skill-name>`: find, read, use and change instructions for kinds of tasks."""

import json
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from gateway.commands.registry import Answer, CommandCall, CommandReply, CommandSpec, TurnStart, as_reply
from gateway.commands.wording import quote
from gateway.messages import Text
from gateway.skills.engine import render_for_task
from gateway.skills.proposals import ProposalVerdict, decide, describe_state
from gateway.store import skill_proposals
from gateway.store.db.connection import Transaction
from gateway.store.skill_proposals import SkillProposal
from gateway.wording import shorten
from skills.changes import remove, undo
from skills.format import Skill
from skills.library import NoSuchSkill, SkillLibrary
from tools.provenance import SKILL

_SHOWN_CHARS = 3_000
_ONLY_OWNERS = "Only an owner can decide about skills."
_FOR_OWNERS = ("install", "update", "remove", "undo", "accept", "refuse", "edit", "proposals")
_NOWHERE = SkillLibrary(root=Path("/nonexistent"))


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillCommands:
    library: SkillLibrary = _NOWHERE

    @property
    def spec(self) -> CommandSpec:
        return CommandSpec(
            "skills",
            "Agent",
            "List, read, install and change skills: instructions for kinds of tasks",
            self.run,
            "[list|search WORDS|inspect NAME|install SOURCE|update NAME [CHANGES]|remove NAME|undo]",
            for_guests=False,
        )

    def find(self, name: str) -> CommandSpec | None:
        """Return the command of a skill: `/name` and what to do with it."""
        skill = self.library.find(name)
        if skill is None:
            return None

        def use(tx: Transaction, call: CommandCall) -> CommandReply:
            asked = Text(text=call.arguments or f"Use the skill {skill.name} now.")
            return CommandReply("", starts=TurnStart(parts=(render_for_task(self.library, skill), asked)))

        return CommandSpec(skill.name, "Agent", skill.description, use, "[TEXT]", for_guests=False, listed=False)

    def run(self, tx: Transaction, call: CommandCall) -> Answer:
        action, _, rest = call.arguments.partition(" ")
        rest = rest.strip()
        word = action.lower()
        if word in _FOR_OWNERS:
            return self._change(tx, call, word, rest) if call.role == "owner" else CommandReply(_ONLY_OWNERS)
        match word:
            case "" | "list":
                return _list(self.library.find_all(), call.role == "owner")
            case "search" if rest:
                found = self.library.search(rest)
                return _list(found, False) if found else f"No skill fits {quote(rest)}."
            case "inspect" | "show" if rest:
                return self._inspect(rest, call.role == "owner")
        return self._explain()

    def _explain(self) -> str:
        return f"Use /skills {self.spec.argument_hint}. /NAME TEXT uses the skill NAME."

    def _change(self, tx: Transaction, call: CommandCall, word: str, rest: str) -> Answer:
        name, _, more = rest.partition(" ")
        try:
            match word:
                case "proposals":
                    waiting = skill_proposals.list_waiting(tx)
                    lines = [f"{one.id}: {one.action} {one.name}" for one in waiting]
                    return "\n".join(lines) or "No proposal is waiting."
                case "undo":
                    undone = undo(self.library, name)
                    return f"Undone: {undone.action} of the skill {undone.name}."
                case "remove" if name:
                    remove(self.library, self.library.get(name).name, by="user")
                    return f"The skill {name} was removed. /skills undo {name} brings it back."
                case "install" if rest:
                    return _call_tool(call, {"action": "install", "source": rest})
                case "update" if name and not more:
                    return _call_tool(call, {"action": "update", "name": self.library.get(name).name})
                case "update" if name:
                    skill = self.library.get(name)
                    return _ask_agent(render_for_task(self.library, skill), skill.name, "patch or edit", more)
                case "accept" | "refuse" | "edit":
                    return self._decide(tx, call, name, word, more.strip())
        except NoSuchSkill as error:
            return f"{error} /skills lists all."
        return self._explain()

    def press(self, tx: Transaction, call: CommandCall) -> Answer:
        """Answer a button below a proposal."""
        number, _, word = call.arguments.partition(":")
        if call.role != "owner":
            return _ONLY_OWNERS
        said = as_reply(self._decide(tx, call, number, word, "")).text
        return CommandReply(said, in_place=word != "edit")

    def _decide(self, tx: Transaction, call: CommandCall, number: str, word: str, changes: str) -> Answer:
        proposal = skill_proposals.get(tx, int(number)) if number.isdecimal() else None
        if proposal is None:
            return f"There is no proposal {number!r}. /skills proposals lists those that wait."
        if proposal.state != "waiting":
            return describe_state(proposal)
        verdict: ProposalVerdict | None = "accept" if word == "accept" else "refuse" if word == "refuse" else None
        if verdict is not None:
            by = f"{call.key.account_name}:{call.sender_id}" if call.sender_id else call.place
            return decide(tx, self.library, proposal, verdict, by)
        if not changes:
            return f"Say what to change: /skills edit {proposal.id} CHANGES. Until then nothing is taken."
        return _ask_agent(_quote_proposal(proposal), proposal.name, proposal.action, changes)

    def _inspect(self, name: str, with_place: bool) -> str:
        try:
            skill = self.library.get(name)
        except NoSuchSkill as error:
            return f"{error} /skills lists all."
        origin = "bundled" if skill.is_bundled else (skill.source or str(skill.folder)) if with_place else "the owner's"
        files = self.library.list_files(skill)
        lines = [f"**{skill.name}** ({origin})", skill.description, "", skill.body[:_SHOWN_CHARS]]
        if (more := len(skill.body) - _SHOWN_CHARS) > 0:
            lines[-1] += f"…\n({more:,} more characters)"
        lines += ["", f"Files: {', '.join(files)}"] if files else []
        return "\n".join(lines)


def _call_tool(call: CommandCall, arguments: dict[str, str]) -> CommandReply:
    """Begin a turn that makes one call of the tool, with its questions to the owner."""
    made = json.dumps({"name": "skill_manage", "arguments": arguments}, ensure_ascii=False)
    start = TurnStart(parts=(Text(text=f"/{call.name} {call.arguments}"),), call=made)
    return CommandReply("", starts=start)


def _ask_agent(shown: Text, name: str, action: str, changes: str) -> CommandReply:
    asked = f"Change the skill {name} as follows, and propose it with skill_manage ({action}): {changes}"
    return CommandReply("", starts=TurnStart(parts=(shown, Text(text=asked))))


def _quote_proposal(proposal: SkillProposal) -> Text:
    texts = [f"{file}:\n{text}" for file, text in proposal.files.items() if text]
    text = "\n\n".join([f"Proposal {proposal.id} for the skill {proposal.name}:", *texts])
    return Text(text=text, origin=f"{SKILL}:{proposal.name}")  # nobody has accepted it


def _list(found: list[Skill], with_problems: bool) -> str:
    usable = [skill for skill in found if skill.is_usable]
    lines: list[str] = []
    for category, skills in groupby(usable, key=lambda skill: skill.category):
        lines += [f"**{category}**"] if category else []
        lines += [f"- /{skill.name}: {shorten(skill.description, 160)}" for skill in skills]
    if not usable:
        lines.append("There are no skills yet.")
    if with_problems and (left := [skill for skill in found if not skill.is_usable]):
        lines += ["", "Not offered:"]
        lines += [f"- {skill.path}: {skill.problem or 'switched off in skills.disabled'}" for skill in left]
    return "\n".join(lines)
