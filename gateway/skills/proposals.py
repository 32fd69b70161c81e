"""Changes of skills that the agent proposes: check them, put them to the owner, carry them out when accepted."""

from dataclasses import dataclass, replace
from difflib import unified_diff
from typing import Literal

from gateway.approvals.wording import escape_invisible
from gateway.messages import Choice
from gateway.store import skill_proposals
from gateway.store.db.connection import Transaction
from gateway.store.skill_proposals import SkillProposal
from gateway.wording import fence
from hermes_config.redaction import Redactor
from skills.changes import apply_files, check_category, check_file_name, find_own, hash_skill
from skills.format import FILE_NAME, SECTIONS, NotASkill, Skill, is_name, parse_skill, render_skill
from skills.library import NoSuchSkill, SkillLibrary
from tools.base import ToolFailed
from tools.builtin.skills import SkillRequest
from tools.scanner import scan

ProposalVerdict = Literal["accept", "edit", "refuse"]

MAX_PROPOSED_CHARS = 40_000
_SHOWN_CHARS = 6_000
_LABELS: dict[ProposalVerdict, str] = {"accept": "Accept", "edit": "Edit", "refuse": "No"}
_DONE = {"create": "was added", "edit": "was changed", "patch": "was changed", "delete": "was removed"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposalMaker:
    """Turns a request of the agent into a proposal; raises ToolFailed, with what to do instead."""

    library: SkillLibrary
    redactor: Redactor

    def make(self, session_id: str, request: SkillRequest) -> SkillProposal:
        if not is_name(request.name):
            raise ToolFailed("`name` must have lower-case letters, digits and single hyphens, such as backup-photos.")
        if not check_category(request.category):
            raise ToolFailed("`category` must be a folder name such as devops.")
        file, text = self._create(request) if request.action == "create" else self._change(request)
        if text is not None and len(text) > MAX_PROPOSED_CHARS:
            raise ToolFailed(f"It is longer than {MAX_PROPOSED_CHARS:,} characters. Move details into references/.")
        if text is not None and self.redactor.clean(text) != text:
            raise ToolFailed("It contains what looks like a secret. Name the variable that holds it instead.")
        return SkillProposal(
            session_id=session_id,
            name=request.name,
            category=request.category,
            action=request.action,
            files={file: text},
            base=hash_skill(self.library, request.name),
        )

    def _create(self, request: SkillRequest) -> tuple[str, str]:
        if find_own(self.library, request.name) or self.library.find(request.name):
            raise ToolFailed(f"There is a skill {request.name} already. Use edit or patch.")
        text = self._render(request.content, request.name)
        if missing := [section for section in SECTIONS if f"\n## {section}".lower() not in text.lower()]:
            raise ToolFailed(f"The skill has no section {', '.join(missing)}. Add each as a ## heading.")
        return FILE_NAME, text

    def _change(self, request: SkillRequest) -> tuple[str, str | None]:
        try:
            skill = self.library.get(request.name)
        except NoSuchSkill as error:
            raise ToolFailed(str(error)) from error
        file = request.file or FILE_NAME
        if problem := check_file_name(file):
            raise ToolFailed(problem)
        if request.action == "delete":
            if skill.is_bundled and file == FILE_NAME:
                raise ToolFailed(f"{skill.name} is bundled; the user can switch it off in skills.disabled.")
            return file, None
        text = request.content if request.action == "edit" else self._patch(skill, file, request)
        if not text.strip():
            raise ToolFailed("`content` is required for edit.")
        return file, self._render(text, skill.name) if file == FILE_NAME else text

    def _patch(self, skill: Skill, file: str, request: SkillRequest) -> str:
        before = read_current(self.library, skill.name, file)
        count = before.count(request.old_text) if request.old_text else 0
        if count != 1:
            found = f"occurs {count} times" if request.old_text else "is empty"
            raise ToolFailed(f"`old_text` {found} in {file} and must occur once. Load it with skill_view first.")
        return before.replace(request.old_text, request.new_text)

    def _render(self, content: str, name: str) -> str:
        try:
            return render_skill(replace(parse_skill(content, fallback=name), name=name))
        except NotASkill as error:
            raise ToolFailed(f"`content` is not a skill: {error}.") from error


def read_current(library: SkillLibrary, name: str, file: str) -> str:
    """Return a file of a skill as it is now; empty when there is none."""
    skill = library.find(name)
    if skill is None:
        return ""
    try:
        if file == FILE_NAME:
            return (skill.folder / FILE_NAME).read_text(encoding="utf-8-sig")
        return library.read_file(skill, file)
    except (NoSuchSkill, OSError):
        return ""


def render_proposal(library: SkillLibrary, proposal: SkillProposal, proposal_id: int) -> str:
    """Put a proposal to the owner: all of the change, what the scanner found, and how to decide."""
    heading = {"create": "a new skill", "delete": "to remove from the skill"}.get(
        proposal.action, "to change the skill"
    )
    lines = [f"📝 I propose {heading} **{proposal.name}**."]
    for file, text in proposal.files.items():
        before = read_current(library, proposal.name, file)
        after, names = text or "", (f"{file} now", f"{file} proposed")
        diff = unified_diff(before.splitlines(), after.splitlines(), *names, lineterm="", n=2)
        lines.append(_fence("\n".join(diff) if before else after))
        lines += [f"⚠️ In {file} {one.reason}: {one.excerpt}" for one in scan(after)]
    similar = library.find_similar(proposal.name, _describe_new(proposal)) if proposal.action == "create" else []
    if similar:
        lines.append(f"Similar skills: {', '.join(skill.name for skill in similar)}.")
    commands = f"/skills accept {proposal_id}, /skills edit {proposal_id} CHANGES, /skills refuse {proposal_id}"
    return "\n".join([*lines, f"Nothing changes until you accept it. You can also send {commands}."])


def list_choices(proposal_id: int) -> tuple[Choice, ...]:
    return tuple(Choice(label=label, action=f"skill:{proposal_id}:{word}") for word, label in _LABELS.items())


def decide(tx: Transaction, library: SkillLibrary, proposal: SkillProposal, verdict: ProposalVerdict, by: str) -> str:
    """Accept or refuse a proposal that waits; return what became of it."""
    if verdict == "refuse":
        skill_proposals.settle(tx, proposal.id, "refused", by=by)
        return f"⛔ Not taken: {proposal.action} {proposal.name}."
    if is_outdated(library, proposal):
        skill_proposals.settle(tx, proposal.id, "replaced", by=by)
        return f"The skill {proposal.name} has changed since this was proposed, so nothing was done. Ask for it again."
    carry_out(library, proposal)
    skill_proposals.settle(tx, proposal.id, "accepted", by=by)
    return f"✅ The skill {proposal.name} {_DONE[proposal.action]}. /skills undo {proposal.name} takes that back."


def carry_out(library: SkillLibrary, proposal: SkillProposal) -> None:
    apply_files(library, proposal.name, proposal.category, proposal.files, action=proposal.action, by="agent")


def is_outdated(library: SkillLibrary, proposal: SkillProposal) -> bool:
    """Return whether the skill is neither as it was nor, after a crash, as it was to become."""
    if hash_skill(library, proposal.name) == proposal.base:
        return False
    return any(read_current(library, proposal.name, file) != (text or "") for file, text in proposal.files.items())


def describe_state(proposal: SkillProposal) -> str:
    words = {"accepted": "was accepted", "refused": "was refused", "replaced": "was replaced by a newer one"}
    return f"The proposal for {proposal.name} {words.get(proposal.state, 'waits')}."


def _describe_new(proposal: SkillProposal) -> str:
    try:
        return parse_skill(proposal.files.get(FILE_NAME) or "").description
    except NotASkill:
        return ""


def _fence(text: str) -> str:
    shown = escape_invisible(text[:_SHOWN_CHARS])
    more = len(text) - _SHOWN_CHARS
    note = f"\n({more:,} more characters: `hermes skills proposals` shows all.)" if more > 0 else ""
    return f"{fence(shown)}{note}"
