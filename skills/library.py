"""The skills of an installation: the bundled ones and those in the home, which win. Finds, reads and lists them."""

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher, get_close_matches
from itertools import groupby
from pathlib import Path
from typing import Any

from skills.format import FILE_NAME, MAX_FILE_BYTES, Skill, load_skill, read_text, slugify

BUILTIN = Path(__file__).parent / "builtin"
MAX_INDEX_BYTES = 5_600  # 1,400 tokens, as they are estimated
_MAX_DEPTH = 4  # categories may have categories
_MAX_FOLDERS = 3_000
_MAX_FILES = 500
_SKIPPED = {"node_modules", "__pycache__"}
_DESCRIPTION_CHARS = (160, 100, 60, 35, 20, 0)  # tried in turn until the index is small enough
_SAME_WORDS = 0.55  # of two descriptions, for their skills to be about the same thing


class NoSuchSkill(ValueError):
    """There is no such skill to use; the text says why or names similar ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillLibrary:
    root: Path  # in the home
    builtin: Path = BUILTIN
    disabled: Sequence[str] = ()

    def find_all(self) -> list[Skill]:
        """Return every skill by category and name, those that cannot be used with the reason."""
        records = read_records(self.root)
        found: dict[str, Skill] = {}
        seen: list[Skill] = []
        for skill in (*find_skills(self.root), *find_skills(self.builtin, is_bundled=True)):
            source = "" if skill.is_bundled else str(records.get(skill.name, {}).get("source", ""))
            skill = replace(skill, is_disabled=skill.name in self.disabled, source=source)
            first = found.get(skill.name)
            if skill.problem:
                seen.append(skill)
            elif first is None:
                found[skill.name] = skill
            elif not skill.is_bundled:  # a bundled one that the user has replaced is not listed
                seen.append(replace(skill, problem=f"{first.path} has the same name"))
        return sorted([*found.values(), *seen], key=lambda one: (one.category, one.name))

    def list_usable(self) -> list[Skill]:
        return [skill for skill in self.find_all() if skill.is_usable]

    def find(self, name: str) -> Skill | None:
        """Return a skill that can be used; `_` stands for `-`, since some chats have no hyphen in commands."""
        wanted = slugify(name.rpartition("/")[2])
        return next((skill for skill in self.list_usable() if skill.name == wanted), None)

    def get(self, name: str) -> Skill:
        """Return a skill that can be used; raises NoSuchSkill, with the nearest names or the reason."""
        if (skill := self.find(name)) is not None:
            return skill
        wanted = slugify(name.rpartition("/")[2])
        known = self.find_all()
        for skill in known:
            if skill.name == wanted or skill.folder.name == wanted:
                raise NoSuchSkill(f"The skill {skill.name} is not offered: {skill.problem or 'it is switched off'}.")
        near = get_close_matches(wanted, [skill.name for skill in known if skill.is_usable], n=3, cutoff=0.5)
        hint = f" Did you mean {' or '.join(near)}?" if near else ""
        raise NoSuchSkill(f"There is no skill {name!r}.{hint}")

    def search(self, words: str) -> list[Skill]:
        """Return the usable skills with some of the words in name, tags or description, the best first."""
        wanted = [word for word in words.lower().replace("-", " ").split() if len(word) > 1]
        scored = [(sum(_weigh(skill, word) for word in wanted), skill) for skill in self.list_usable()]
        return [skill for score, skill in sorted(scored, key=lambda one: -one[0]) if score]

    def find_similar(self, name: str, description: str) -> list[Skill]:
        """Return skills that are probably about the same thing as a new one."""
        return [
            skill
            for skill in self.list_usable()
            if skill.name != name
            and (
                SequenceMatcher(None, skill.name, name).ratio() > 0.8
                or _compare_words(skill.description, description) >= _SAME_WORDS
            )
        ]

    def list_files(self, skill: Skill) -> list[str]:
        """Return the other files of a skill, by their path in its folder."""
        names: list[str] = []
        for folder, folders, files in os.walk(skill.folder):
            folders[:] = sorted(one for one in folders if not one.startswith(".") and one not in _SKIPPED)
            names += [str((Path(folder) / name).relative_to(skill.folder)) for name in files if name[0] != "."]
            if len(names) > _MAX_FILES:
                break
        return sorted(name for name in names[:_MAX_FILES] if name != FILE_NAME)

    def read_file(self, skill: Skill, name: str) -> str:
        """Return a text file of a skill; raises NoSuchSkill for anything else, and outside of its folder."""
        path = skill.folder / name
        known = self.list_files(skill)
        if name not in known or not path.resolve().is_relative_to(skill.folder.resolve()) or not path.is_file():
            listed = f" It has: {', '.join(known[:20])}." if known else ""
            raise NoSuchSkill(f"The skill {skill.name} has no file {name!r}.{listed}")
        text = read_text(path, MAX_FILE_BYTES)
        if text is None:
            raise NoSuchSkill(f"{name} is not a text file of at most {MAX_FILE_BYTES:,} bytes.")
        return text

    def describe_index(self) -> str:
        """Return names and descriptions for the prompt, shortened to fit; empty when there is no skill."""
        usable = self.list_usable()
        for max_chars in _DESCRIPTION_CHARS:
            text = "\n".join(_index_lines(usable, max_chars))
            if len(text.encode()) <= MAX_INDEX_BYTES:
                return text
        counts = {skill.category: sum(one.category == skill.category for one in usable) for skill in usable}
        lines = [f"- {category or 'other'}: {count} skills" for category, count in counts.items()]
        return "\n".join(lines)[:MAX_INDEX_BYTES]


def read_records(root: Path) -> dict[str, dict[str, Any]]:
    """Return who made the skills of the home, and where they came from, by name. A skill without one is the user's."""
    try:
        records = json.loads((root / ".records.json").read_text())
    except (OSError, ValueError):
        return {}
    given = records.items() if isinstance(records, dict) else ()
    return {str(name): record for name, record in given if isinstance(record, dict)}


def find_skills(root: Path, *, is_bundled: bool = False) -> Iterator[Skill]:
    """Yield the skills below a folder. The folders on the way to one are its category."""
    waiting, looked_at = [(root, 0)], 0
    while waiting and looked_at < _MAX_FOLDERS:
        folder, depth = waiting.pop(0)
        looked_at += 1
        try:
            inside = sorted(one for one in folder.iterdir() if one.is_dir() and one.name not in _SKIPPED)
        except OSError:
            continue
        for one in inside:
            if one.name.startswith("."):
                continue
            if (one / FILE_NAME).exists() or (one / FILE_NAME).is_symlink():
                category = str(folder.relative_to(root)) if folder != root else ""
                yield load_skill(one, category=category, is_bundled=is_bundled)
            elif depth < _MAX_DEPTH and not one.is_symlink():
                waiting.append((one, depth + 1))


def _index_lines(skills: Sequence[Skill], max_chars: int) -> Iterator[str]:
    for category, members in groupby(skills, key=lambda skill: skill.category):
        if not max_chars:
            yield f"{category or 'other'}: {', '.join(skill.name for skill in members)}"
            continue
        if category:
            yield f"{category}:"
        for skill in members:
            text = skill.description
            yield f"- {skill.name}: {text if len(text) <= max_chars else f'{text[: max_chars - 1]}…'}"


def _weigh(skill: Skill, word: str) -> int:
    if word in skill.name.split("-"):
        return 4
    tags = f"{skill.metadata.get('tags', '')} {skill.category}".lower()
    return 3 * (word in skill.name) or 2 * (word in tags) or int(word in skill.description.lower())


def _compare_words(first: str, second: str) -> float:
    """Return how many of the longer words two texts share, from 0 to 1."""
    one, other = ({word.strip(".,;:()") for word in text.lower().split() if len(word) > 3} for text in (first, second))
    return len(one & other) / len(one | other) if one and other else 0.0
