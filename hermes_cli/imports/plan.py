"""Decide what of a peer's home is taken, without writing anything.

Each part is a function that `fill_plan` calls: it adds what is to be written, and a line for each item. To import more,
fill a field of PeerHome in the readers and add a part.
"""

import asyncio
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from agent_core.model import NoEndpoint
from agent_core.models.providers import choose, find_preset
from agent_core.prompt import MAX_LAYER_CHARS
from gateway.clock import now_ms
from gateway.memory.checks import explain_refusal
from gateway.platforms.all import PLATFORMS
from gateway.schedule.book import JobWish
from gateway.store import cron, members
from gateway.store import memories as our_memories
from gateway.store.people import OWNER
from gateway.wiring.basics import build_library
from hermes_cli.cron import open_book
from hermes_cli.imports.jobs import explain_unfit, read_jobs
from hermes_cli.imports.memories import name_memories, read_memories
from hermes_cli.imports.peer import PeerHome, PeerUser
from hermes_cli.opening import read_store
from hermes_cli.setup_checks import check_model, check_tokens, qualify_name
from hermes_cli.setup_sections import DEMO, SetupState
from hermes_config import secrets
from hermes_config.errors import ConfigError
from hermes_config.keys import WrongValue, catalogue
from hermes_config.platforms import PLATFORMS as CONFIGS
from hermes_config.sources import read_text
from skills.format import Skill
from skills.inspection import inspect_folder
from skills.library import find_skills

_SAME = "the same here already"
_OURS = "already set here to another value; --overwrite takes theirs"
_PREFIX = re.compile(r"^(?:telegram|tg|discord|slack|user):")


@dataclass(slots=True, kw_only=True)
class ImportPlan:
    """Everything that an import writes into our home, and a line for each item found."""

    state: SetupState  # of our home
    overwrite: bool
    check: bool  # ask the servers
    texts: dict[str, str] = field(default_factory=dict, repr=False)  # settings and secrets, for set_values
    people: list[PeerUser] = field(default_factory=list)
    personality: str = ""
    memories: dict[str, str] = field(default_factory=dict)
    jobs: list[JobWish] = field(default_factory=list)
    skills: list[Skill] = field(default_factory=list)
    lines: list[tuple[bool, str, str]] = field(default_factory=list)  # whether it is taken, the item, and why

    def take(self, what: str, why: str = "") -> None:
        self.lines.append((True, what, why))

    def leave(self, what: str, why: str) -> None:
        self.lines.append((False, what, why))

    def keeps(self, key: str, text: str) -> str:
        """Return why our own value of a key stays; empty when theirs can be taken."""
        current = self.state.read(key)
        if current == text:
            return _SAME
        default = "" if secrets.find(key) else catalogue()[key].format(catalogue()[key].default)
        return _OURS if current != default and not self.overwrite else ""


def fill_plan(plan: ImportPlan, home: PeerHome) -> None:
    _plan_secrets(plan, home)
    _plan_allowlists(plan, home)
    _plan_model(plan, home)
    _plan_people(plan, home)
    plan_personality(plan, home)
    _plan_memories(plan, home)
    _plan_jobs(plan, home)
    _plan_skills(plan, home)
    for what, why in home.left.items():
        plan.leave(what, why)


def _plan_secrets(plan: ImportPlan, home: PeerHome) -> None:
    fresh: dict[str, str] = {}
    for name, value in home.secrets.items():
        mistake = "it contains a line break or control character" if not value.isprintable() else ""
        if why := mistake or secrets.get(name).describe_mistake(value) or plan.keeps(name, value):
            plan.leave(f"{name} ({secrets.mask(value)})", why)
        else:
            fresh[name] = value
    answers = _ask_platforms(plan, fresh) if plan.check else {}
    for name, value in fresh.items():
        is_refused, why = answers.get(name, (False, ""))
        plan.lines.append((not is_refused, f"{name} ({secrets.mask(value)})", why))
        if not is_refused:
            plan.texts[name] = value


def _ask_platforms(plan: ImportPlan, fresh: Mapping[str, str]) -> dict[str, tuple[bool, str]]:
    """Ask the platforms about new tokens; return of each whether it was refused, and what was said."""
    answered: dict[str, tuple[bool, str]] = {}
    for spec in (spec for spec in PLATFORMS if spec.token_checks):
        names = [secret.env for secret in secrets.find_tokens(spec.name)]
        tokens = [fresh.get(name) or plan.state.read(name) for name in names]
        if all(tokens) and not fresh.keys().isdisjoint(names):
            findings = [one.finding for one in asyncio.run(check_tokens(plan.state.settings, spec, tokens))]
            is_refused = any(finding.level == "bad" for finding in findings)
            answered |= dict.fromkeys(names, (is_refused, "; ".join(finding.text for finding in findings)))
    return answered


def _plan_allowlists(plan: ImportPlan, home: PeerHome) -> None:
    for platform, entries in home.allowed.items():
        key, name = f"platforms.{platform}.allowed_users", f"allowlist of {platform}"
        if not platform:
            key, name = "access.allowed_users", "allowlist of all platforms"
        ids = list(_keep_ids(plan, key, name, entries))
        text = ",".join(ids)
        what = f"{name} ({len(ids)} {'person' if len(ids) == 1 else 'people'})"
        if ids and (why := plan.keeps(key, text)):
            plan.leave(what, why)
        elif ids:
            plan.texts[key] = text
            plan.take(what, text)


def _keep_ids(plan: ImportPlan, key: str, name: str, entries: Iterable[str]) -> Iterator[str]:
    for entry in entries:
        user_id = entry.partition("|")[0].strip()
        user_id = _PREFIX.sub("", user_id) if key != "access.allowed_users" else user_id
        if user_id == "*":
            plan.leave(f"* in the {name}", "it would let everybody in; see access.allow_all_users in docs/access.md")
            continue
        try:
            catalogue()[key].check([user_id], strict=False)
        except WrongValue as wrong:
            plan.leave(f"{entry[:60]!r} in the {name}", wrong.reasons[0])
        else:
            yield user_id


def _plan_model(plan: ImportPlan, home: PeerHome) -> None:
    if home.model is None:
        return
    given, state = home.model, plan.state
    keys = state.settings.secrets.by_variable() | {name: text for name, text in plan.texts.items() if name.isupper()}
    preset = find_preset(given.provider) if given.provider else None
    what = f"model {'/'.join(filter(None, (given.provider, given.name)))}"
    if given.provider and preset is None and not given.base_url:
        plan.leave(what, f"Hermes has no provider {given.provider!r}; name its address: hermes setup model")
        return
    # Other programs write the usual address of a provider too, not always the one for OpenAI's protocol.
    is_usual = (
        preset is not None
        and preset.key_env
        and urlsplit(given.base_url).hostname in (None, urlsplit(preset.base_url).hostname)
    )
    address = "" if is_usual else given.base_url
    name = qualify_name(given.name, preset, keys) if preset and not address else given.name
    texts = {"model.name": name, "model.base_url": address}
    try:
        for key, text in texts.items():
            catalogue()[key].check(text, strict=False)
        choose(name, address, keys)
    except (WrongValue, NoEndpoint) as problem:
        plan.leave(what, str(problem))
        return
    has_own = state.settings.model.name not in (DEMO, name)
    if has_own and not plan.overwrite:
        plan.leave(what, _OURS)
    elif all(state.read(key) == text for key, text in texts.items()):
        plan.leave(what, _SAME)
    else:
        plan.texts |= texts
        silence = asyncio.run(check_model(name, address, keys)) if plan.check else ""
        plan.take(what, f"but it does not answer now: {silence}" if silence else address)


def _plan_people(plan: ImportPlan, home: PeerHome) -> None:
    paired, revoked = read_store(plan.state.opened, members.list_people) or ([], [])
    have, lost = ({(one.account, one.user_id) for one in people} for people in (paired, revoked))
    for user in home.paired:
        what = f"paired: {user.name or 'somebody'} ({user.platform}:{user.user_id})"
        config = CONFIGS.get(user.platform)
        identity = (user.platform, user.user_id)
        if config is None or config.is_local:
            plan.leave(what, "Hermes has no such platform")
        elif not re.fullmatch(config.user_id, user.user_id):
            plan.leave(what, f"not an id; to find it, {config.find_user_id}")
        elif identity in have:
            plan.leave(what, "paired here already")
        elif identity in lost:
            plan.leave(what, "access was revoked here; to let them in again: hermes pairing invite")
        else:
            plan.people.append(user)
            plan.take(what, "as a member")


def plan_personality(plan: ImportPlan, home: PeerHome) -> None:
    if home.personality is None:
        return
    what = f"personality ({home.personality})"
    try:
        text, ours = read_text(home.personality) or "", read_text(plan.state.home.root / "SOUL.md")
    except ConfigError as error:
        plan.leave("personality", str(error))
        return
    if not text.strip():
        return
    if hashlib.sha256(text.strip().encode()).hexdigest() == home.shipped_personality:
        plan.leave(what, "it is the one that came with the program")
    elif text == ours:
        plan.leave(what, _SAME)
    elif ours and not plan.overwrite:
        plan.leave(what, "SOUL.md exists here; --overwrite takes theirs")
    else:
        plan.personality = text
        plan.take(what, f"only {MAX_LAYER_CHARS:,} characters of it are used" if len(text) > MAX_LAYER_CHARS else "")


def _plan_memories(plan: ImportPlan, home: PeerHome) -> None:
    opened = plan.state.opened
    ours = read_store(opened, lambda tx: our_memories.find_live(tx, our_memories.OWNERS)) or []
    known, keys = {one.value for one in ours}, {one.key for one in ours}
    for file in home.memories:
        try:
            found = read_memories(file)
        except ConfigError as error:
            plan.leave(f"memories in {file.name}", str(error))
            continue
        fresh: dict[str, str] = {}
        for key, value in name_memories([value for value in found if value not in known], keys):
            if refusal := explain_refusal(key, value, opened.redactor):
                plan.leave(f"memory {key!r}", refusal)
            else:
                fresh[key] = value
        known.update(fresh.values())
        plan.memories |= fresh
        if fresh:
            plan.take(f"{len(fresh)} {'memory' if len(fresh) == 1 else 'memories'} ({file})", "as yours")
        elif found and known.issuperset(found):
            plan.leave(f"memories ({file})", _SAME)


def _plan_jobs(plan: ImportPlan, home: PeerHome) -> None:
    if home.jobs is None:
        return
    try:
        found = read_jobs(home.jobs)
    except ConfigError as error:
        plan.leave("cron jobs", str(error))
        return
    timezone = open_book(plan.state.opened).options.timezone
    ours = read_store(plan.state.opened, lambda tx: cron.list_jobs(tx, OWNER)) or []
    taken = {job.name.lower() for job in ours}
    for wish, is_on in found:
        what, name = f"cron job {wish.name!r} ({wish.schedule})", str(wish.name).lower()
        if not is_on:
            plan.leave(what, "it is switched off there")
        elif name in taken:
            plan.leave(what, "a job of that name exists here")
        elif why := explain_unfit(wish, timezone, now_ms()):
            plan.leave(what, why)
        else:
            taken.add(name)
            plan.jobs.append(wish)
            plan.take(what)


def _plan_skills(plan: ImportPlan, home: PeerHome) -> None:
    if home.skills is None:
        return
    known = build_library(plan.state.settings, plan.state.home).find_all()
    ours = {skill.name for skill in known if not skill.is_bundled}
    found = list(find_skills(home.skills))
    for skill in (one for one in found if one.name not in home.shipped_skills):
        what = f"skill {skill.name}"
        findings = () if skill.problem else inspect_folder(skill.folder).findings
        if skill.problem:
            plan.leave(what, skill.problem)
        elif skill.name in ours and not plan.overwrite:
            plan.leave(what, "there is one of that name here; --overwrite takes theirs")
        elif findings:
            advice = f"to read it and decide: hermes skills install {skill.folder}"
            plan.leave(what, f"the scanner found something in it ({findings[0]}); {advice}")
        else:
            plan.skills.append(skill)
            plan.take(what, skill.category)
    if shipped := sum(one.name in home.shipped_skills for one in found):
        plan.leave(f"{shipped} {'skill' if shipped == 1 else 'skills'} that came with the program", "not your own")
