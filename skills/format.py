"""SKILL.md: read leniently, written strictly, as the open Agent Skills format wants it. Nothing here runs anything."""

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from hermes_config.ownership import find_stranger

FILE_NAME = "SKILL.md"
MAX_FILE_BYTES = 500_000
MAX_NAME_CHARS, MAX_DESCRIPTION_CHARS, MAX_COMPATIBILITY_CHARS = 64, 1_024, 500
SECTIONS = ("Trigger Conditions", "Prerequisites", "Steps", "Pitfalls", "Verification")
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_FRONTMATTER = re.compile(r"---[ \t]*\n(.*?)(?:^|\n)---[ \t]*(?:\n|\Z)(.*)", re.DOTALL)
_HEADING = re.compile(r"^#[ \t]+(\S.*?)[ \t#]*$", re.MULTILINE)
_OURS = ("version", "tags", "related_skills", "platforms")  # below `metadata:`; at the top in older files
_KEPT = ("license", "compatibility", "allowed-tools")
_MAX_NESTING = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """A folder of instructions for one kind of task."""

    name: str
    folder: Path
    description: str = ""
    category: str = ""  # the folders between the skill and the root
    body: str = ""
    metadata: Mapping[str, str]
    is_bundled: bool = False
    source: str = ""  # where it was installed from
    is_disabled: bool = False
    problem: str = ""  # why it is not offered

    @property
    def is_usable(self) -> bool:
        return not self.problem and not self.is_disabled

    @property
    def path(self) -> str:
        return f"{self.category}/{self.name}" if self.category else self.name


class NotASkill(ValueError):
    """A text that cannot be read as a skill; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedSkill:
    name: str
    description: str
    body: str
    metadata: Mapping[str, str]  # ours and others, as text
    license: str = ""
    compatibility: str = ""
    allowed_tools: str = ""  # kept, and grants nothing


def load_skill(folder: Path, *, category: str = "", is_bundled: bool = False) -> Skill:
    """Read a skill from its folder; a problem is part of the result."""
    skill = Skill(name=folder.name, folder=folder, category=category, is_bundled=is_bundled, metadata={})
    file = folder / FILE_NAME
    try:
        if not is_bundled and (stranger := find_stranger(folder) or find_stranger(file)):
            raise NotASkill(stranger)
        parsed = parse_skill(read_skill_file(file), fallback=folder.name)
    except NotASkill as error:
        return replace(skill, problem=str(error))
    except OSError as error:
        return replace(skill, problem=f"{FILE_NAME}: {(error.strerror or str(error)).lower()}")
    systems = split_words(parsed.metadata.get("platforms", ""))
    problem = f"it is for {', '.join(systems)} only" if systems and "linux" not in map(str.lower, systems) else ""
    return replace(
        skill,
        name=parsed.name,
        description=parsed.description,
        body=parsed.body,
        metadata=parsed.metadata,
        problem=problem,
    )


def read_skill_file(file: Path) -> str:
    """Return the text of a SKILL.md. Raises NotASkill and OSError."""
    if file.is_symlink() or not file.is_file():
        raise NotASkill(f"{FILE_NAME} is not a plain file")
    if file.stat().st_size > MAX_FILE_BYTES:
        raise NotASkill(f"{FILE_NAME} is larger than {MAX_FILE_BYTES:,} bytes")
    try:
        return file.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise NotASkill(f"{FILE_NAME} is not text in UTF-8") from None


def read_text(file: Path, max_bytes: int) -> str | None:
    """Return the content of a file; None when it is longer, no text, or not there."""
    try:
        content = file.read_bytes() if file.stat().st_size <= max_bytes else b"\0"
        return None if b"\0" in content else content.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return None


@lru_cache(maxsize=2_000)  # parsing YAML takes a millisecond, and all skills are read for every list
def parse_skill(text: str, *, fallback: str = "") -> ParsedSkill:
    """Read the text of a SKILL.md. `fallback` names the folder, for advice. Raises NotASkill."""
    text = text.replace("\r\n", "\n")
    front, body = _split(text)
    heading = _HEADING.search(body)
    if front is None:
        if heading is None:
            raise NotASkill(f"it has no name: begin {FILE_NAME} with `name:` and `description:` between two lines ---")
        front = {"name": heading[1]}
    name = slugify(_text(front.get("name")))
    if not name:
        raise NotASkill(f"`name` is missing or has no letters; write `name: {slugify(fallback) or 'my-skill'}`")
    description = _text(front.get("description")) or _first_paragraph(body)
    if not description:
        raise NotASkill("`description` is missing: say in one sentence what it does and when to use it")
    kept = {key: _text(front.get(key)) for key in _KEPT}
    return ParsedSkill(
        name=name,
        description=" ".join(description.split()),
        body=body.strip(),
        metadata=_read_metadata(front),
        license=kept["license"],
        compatibility=kept["compatibility"],
        allowed_tools=kept["allowed-tools"],
    )


def render_skill(parsed: ParsedSkill) -> str:
    """Write a SKILL.md that the reference validator accepts, whatever it was read from."""
    fields = {
        "name": parsed.name[:MAX_NAME_CHARS].strip("-"),
        "description": _cut(_flatten(parsed.description), MAX_DESCRIPTION_CHARS) or parsed.name,
        "license": parsed.license,
        "compatibility": _cut(parsed.compatibility, MAX_COMPATIBILITY_CHARS),
        "allowed-tools": parsed.allowed_tools,
    }
    lines = [f"{key}: {_quote(value)}" for key, value in fields.items() if value]
    extra = [f"  {key}: {_quote(value)}" for key, value in parsed.metadata.items() if value]
    lines += ["metadata:", *extra] if extra else []
    return "\n".join(["---", *lines, "---", "", parsed.body.strip(), ""])


def slugify(text: str) -> str:
    """Return a name as the format wants it: lower-case letters, digits and single hyphens; it may be empty."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:MAX_NAME_CHARS].strip("-")


def is_name(text: str) -> bool:
    return bool(_NAME.fullmatch(text)) and len(text) <= MAX_NAME_CHARS


def split_words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _split(text: str) -> tuple[dict[str, Any] | None, str]:
    """Return frontmatter and body. A rule `---` that encloses anything but a mapping is part of the body."""
    found = _FRONTMATTER.match(text)
    if found is None:
        return None, text
    loaded = _load_yaml(found[1])
    if not isinstance(loaded, dict):
        return None, text
    return {str(key): value for key, value in loaded.items()}, found[2]


def _load_yaml(text: str) -> object:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    # Anchors can make a small file grow without bound when it is read.
    if re.search(r"(?m)^\s*[\w-]+:\s*[&*]\w|[\[,]\s*\*\w", text):
        raise NotASkill("its frontmatter uses anchors, which are not read")
    if max((len(line) - len(line.lstrip()) for line in text.splitlines()), default=0) > 2 * _MAX_NESTING:
        raise NotASkill("its frontmatter is nested too deeply")
    try:
        return YAML(typ="safe", pure=True).load(text)
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 2}: " if mark is not None else ""
        problem = getattr(error, "problem", None) or "it is not YAML"
        raise NotASkill(f"{FILE_NAME} {where}{problem}; put the value in quotes if it has a colon") from None
    except (ValueError, RecursionError, TypeError):
        raise NotASkill(f"{FILE_NAME}: its frontmatter is not YAML") from None


def _read_metadata(front: dict[str, Any]) -> dict[str, str]:
    """Return `metadata:`, with our own keys from wherever older files and other programs put them."""
    given = front.get("metadata")
    metadata = given if isinstance(given, dict) else {}
    read = {str(key): text for key, value in metadata.items() if (text := _text(value))}
    nested = [one for one in metadata.values() if isinstance(one, dict)]
    for key in _OURS:
        found = next((text for one in (front, *nested) if (text := _text(one.get(key)))), "")
        if found and key not in read:
            read[key] = found
    return read


def _text(value: object) -> str:
    """Return a value as text, a list of plain values with commas; empty for anything else."""
    if isinstance(value, list):
        return ", ".join(str(one).strip() for one in value if isinstance(one, str | int | float))
    return str(value).strip() if isinstance(value, str | int | float) and not isinstance(value, bool) else ""


def _first_paragraph(body: str) -> str:
    blocks = (" ".join(block.split()) for block in re.split(r"\n[ \t]*\n", _HEADING.sub("\n", body, count=1)))
    return next((block for block in blocks if block and not re.match(r"#|```|---", block)), "")


def _quote(value: str) -> str:
    """Write a value in one line that every YAML reader takes for the same text, and that has no `---` in it."""
    flat = _flatten(value)
    escaped = flat.replace("\\", "\\\\").replace('"', '\\"')
    is_plain = re.fullmatch(r"[A-Za-z][\w ,./()'-]*", flat) and flat.lower() not in (
        "true",
        "false",
        "null",
        "yes",
        "no",
    )
    return flat if is_plain else f'"{escaped}"'


def _flatten(text: str) -> str:
    printable = "".join(mark if mark.isprintable() else " " for mark in text)
    return re.sub(r"-{3,}", "–", " ".join(printable.split()))


def _cut(text: str, max_chars: int) -> str:
    return text if len(text) <= max_chars else f"{text[: max_chars - 1]}…"
