"""Change the skills in the home. Every change keeps the folder as it was, so that it can be undone."""

import hashlib
import json
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hermes_config.places import make_private
from skills.format import FILE_NAME, Skill, is_name, slugify
from skills.library import NoSuchSkill, SkillLibrary, read_records

_VERSIONS, _STAGING = ".versions", ".staging"
_KEPT_VERSIONS = 20  # of each skill
_FOLDERS = ("references", "templates", "scripts", "assets")


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillChange:
    """A change, as recorded with its version."""

    name: str
    action: str
    by: str


def apply_files(
    library: SkillLibrary, name: str, category: str, files: Mapping[str, str | None], *, action: str, by: str
) -> None:
    """Write files of a skill, or delete those without a text; a skill without files is removed.

    A bundled skill is copied into the home first. Done twice, the second time changes nothing.
    """
    current = find_own(library, name)
    base = current or library.find(name)
    if FILE_NAME in files and files[FILE_NAME] is None:
        if current is not None:
            _replace(library, name, current.category, None, action=action, by=by)
        return
    staged = _stage(library, name)
    if base is not None:
        shutil.copytree(base.folder, staged, symlinks=True, dirs_exist_ok=True)
    for file, text in files.items():
        path = staged / file
        if text is None:
            path.unlink(missing_ok=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    place = current.category if current else (base.category if base else category)
    _replace(library, name, place, staged, action=action, by=by, source=read_source(library, name))


def replace_folder(
    library: SkillLibrary, name: str, category: str, folder: Path, *, action: str, by: str, source: str
) -> None:
    """Put a copy of a folder in the place of a skill and record where it came from."""
    staged = _stage(library, name)
    shutil.copytree(folder, staged, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".git", "__pycache__"))
    current = find_own(library, name)
    _replace(library, name, current.category if current else category, staged, action=action, by=by, source=source)


def remove(library: SkillLibrary, name: str, *, by: str) -> None:
    """Remove a skill of the home. Raises NoSuchSkill."""
    current = find_own(library, name)
    if current is None:
        bundled = library.find(name)
        if bundled is not None:
            raise NoSuchSkill(f"{bundled.name} is bundled. To switch it off, add it to skills.disabled.")
        library.get(name)
        raise NoSuchSkill(f"There is no skill {name!r}.")
    _replace(library, current.name, current.category, None, action="remove", by=by)


def undo(library: SkillLibrary, name: str = "") -> SkillChange:
    """Undo the last change that was not undone yet, of one skill or of any. Raises NoSuchSkill."""
    entries = sorted(_list_versions(library, slugify(name)), key=lambda one: one.name)
    for entry in reversed(entries):
        change = _read_change(entry)
        if not change or change.get("undone"):
            continue
        current = find_own(library, str(change["name"]))
        if current is not None:
            shutil.move(current.folder, entry / "after")
        if (entry / "before").is_dir():
            place = library.root / str(change["path"])
            make_private(place.parent)
            shutil.copytree(entry / "before", place, symlinks=True)
        records = read_records(library.root)
        records.pop(str(change["name"]), None)
        if change.get("record"):
            records[str(change["name"])] = change["record"]
        _write_json(library.root / ".records.json", records)
        _write_json(entry / "change.json", change | {"undone": True})
        return SkillChange(name=str(change["name"]), action=str(change["action"]), by=str(change["by"]))
    raise NoSuchSkill(f"There is no change of {name} to undo." if name else "There is no change to undo.")


def hash_skill(library: SkillLibrary, name: str) -> str:
    """Return a digest of a skill as it is now; empty when there is none."""
    skill = find_own(library, name) or library.find(name)
    return hash_folder(skill.folder) if skill is not None else ""


def hash_folder(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if {".git", "__pycache__"} & set(name.parts) or not (path.is_file() or path.is_symlink()):
            continue
        content = str(path.readlink()).encode() if path.is_symlink() else path.read_bytes()
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def find_own(library: SkillLibrary, name: str) -> Skill | None:
    """Return a skill of the home, usable or not."""
    return next((one for one in library.find_all() if not one.is_bundled and one.name == name), None)


def read_source(library: SkillLibrary, name: str) -> str:
    return str(read_records(library.root).get(name, {}).get("source", ""))


def was_made_by_agent(library: SkillLibrary, name: str) -> bool:
    """Return whether the agent wrote a skill and nobody has changed it since."""
    record = read_records(library.root).get(name, {})
    return record.get("by") == "agent" and record.get("sha256") == hash_skill(library, name)


def check_file_name(file: str) -> str:
    """Return the problem with the name of a file in a skill; empty when it may be written."""
    path = Path(file)
    is_plain = not path.is_absolute() and all(part and part[0] != "." for part in path.parts) and file.isprintable()
    if file == FILE_NAME or (is_plain and len(path.parts) in (2, 3) and path.parts[0] in _FOLDERS):
        return ""
    return f"A skill has {FILE_NAME} and files in {', '.join(_FOLDERS)}; {file!r} is neither."


def check_category(category: str) -> bool:
    return not category or (len(category) <= 100 and all(is_name(part) for part in category.split("/")))


def _replace(
    library: SkillLibrary, name: str, category: str, staged: Path | None, *, action: str, by: str, source: str = ""
) -> None:
    """Move the skill as it is into a version, and what was staged into its place."""
    current = find_own(library, name)
    if current is not None and staged is not None and hash_folder(current.folder) == hash_folder(staged):
        shutil.rmtree(staged)  # done already, before a crash
        return
    records = read_records(library.root)
    path = f"{category}/{name}" if category else name
    entry = library.root / _VERSIONS / name / f"{time.time_ns():020d}"
    make_private(entry)
    change = {"name": name, "action": action, "by": by, "path": path, "record": records.pop(name, None)}
    _write_json(entry / "change.json", change)
    if current is not None:
        shutil.move(current.folder, entry / "before")
    if staged is not None:
        place = library.root / path
        make_private(place.parent)
        staged.rename(place)
        records[name] = {"by": by, "sha256": hash_folder(place)} | ({"source": source} if source else {})
    _write_json(library.root / ".records.json", records)
    for old in sorted(_list_versions(library, name))[:-_KEPT_VERSIONS]:
        shutil.rmtree(old, ignore_errors=True)


def _stage(library: SkillLibrary, name: str) -> Path:
    folder = library.root / _STAGING / f"{time.time_ns()}" / name
    make_private(folder)
    return folder


def _list_versions(library: SkillLibrary, name: str) -> list[Path]:
    return list((library.root / _VERSIONS).glob(f"{name or '*'}/*"))


def _read_change(entry: Path) -> dict[str, Any]:
    try:
        change = json.loads((entry / "change.json").read_text())
    except (OSError, ValueError):
        return {}
    return change if isinstance(change, dict) and {"name", "path", "action", "by"} <= change.keys() else {}


def _write_json(file: Path, content: Mapping[str, Any]) -> None:
    draft = file.with_name(f"{file.name}.new")
    draft.write_text(json.dumps(content, ensure_ascii=False, indent=1))
    draft.replace(file)
