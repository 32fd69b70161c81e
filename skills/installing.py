"""Install and update skills from elsewhere: quarantine, inspection, then the owner's yes."""

import asyncio
import filecmp
import shutil
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from difflib import unified_diff
from pathlib import Path

from hermes_config.places import make_private
from skills.changes import find_own, hash_folder, read_source, replace_folder
from skills.fetching import CannotFetch, fetch_skill, parse_source
from skills.format import parse_skill, read_skill_file, read_text
from skills.inspection import Inspection, inspect_folder
from skills.library import SkillLibrary, read_records
from tools.url_guard import UrlGuard

_MAX_DIFF_CHARS = 20_000
_MAX_COMPARED_BYTES = 200_000  # comparing takes long with the square of the length
_OLD_SECONDS = 86_400
_EDITED = "You have edited it; your changes would be replaced. `hermes skills undo` brings them back."


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantined:
    """A skill that was fetched and inspected, and that nothing uses yet."""

    name: str
    description: str
    source: str
    folder: Path
    place: Path  # everything that was fetched, to be deleted
    inspection: Inspection
    sha256: str
    diff: str = ""  # of an update
    notes: tuple[str, ...] = ()  # sentences for the owner

    def discard(self) -> None:
        shutil.rmtree(self.place, ignore_errors=True)


async def quarantine(library: SkillLibrary, source: str, guard: UrlGuard) -> Quarantined:
    """Fetch a new skill and inspect it. Raises ToolFailed when it cannot be installed."""
    fetched = await _fetch(library, source, guard)
    own = find_own(library, fetched.name)
    if own is not None:
        fetched.discard()
        how = f"hermes skills update {own.name}" if own.source else f"hermes skills remove {own.name}"
        raise CannotFetch(f"There is a skill {own.name} here already. First: {how}")
    if library.find(fetched.name) is not None:
        return replace(fetched, notes=(f"It would take the place of the bundled skill {fetched.name}.",))
    return fetched


async def quarantine_update(library: SkillLibrary, name: str, guard: UrlGuard) -> Quarantined | None:
    """Fetch an installed skill again; None when it is the same. Raises ToolFailed."""
    own, source = find_own(library, name), read_source(library, name)
    if own is None or not source:
        raise CannotFetch(f"{name} was not installed from elsewhere, so there is nothing to update it from.")
    fetched = await _fetch(library, source, guard)
    if fetched.name != name:
        fetched.discard()
        raise CannotFetch(f"{source} now has another skill, {fetched.name}. Nothing was changed.")
    if fetched.sha256 == hash_folder(own.folder):
        fetched.discard()
        return None
    recorded = read_records(library.root).get(name, {}).get("sha256")
    notes = () if recorded == hash_folder(own.folder) else (_EDITED,)
    diff = await asyncio.to_thread(compare_folders, own.folder, fetched.folder)
    return replace(fetched, diff=diff, notes=notes)


def install(library: SkillLibrary, fetched: Quarantined) -> None:
    """Move a skill out of its quarantine. Raises CannotFetch when it is not what was inspected."""
    if fetched.inspection.blocking or hash_folder(fetched.folder) != fetched.sha256:
        raise CannotFetch("The skill has changed since it was inspected. Nothing was installed.")
    action = "update" if find_own(library, fetched.name) else "install"
    replace_folder(library, fetched.name, "", fetched.folder, action=action, by="installed", source=fetched.source)
    fetched.discard()


def describe(fetched: Quarantined) -> str:
    """Say what would be installed, from where, and how it differs from what is there."""
    kind = "Update" if fetched.diff else "Install"
    lines = [
        f"{kind} the skill {fetched.name} from {fetched.source}",
        fetched.description[:300],
        f"{len(fetched.inspection.files)} files, {fetched.inspection.size_bytes:,} bytes: "
        + ", ".join(fetched.inspection.files[:20]),
    ]
    lines += fetched.notes
    return "\n".join([*lines, *([fetched.diff] if fetched.diff else [])])


def compare_folders(old: Path, new: Path) -> str:
    """Return the differences between two folders; of files that are no text, or a long one, only that they differ."""
    names = sorted({str(path.relative_to(root)) for root in (old, new) for path in root.rglob("*") if path.is_file()})
    parts: list[str] = []
    for name in names:
        was_there, is_there = (old / name).exists(), (new / name).exists()
        if was_there and is_there and filecmp.cmp(old / name, new / name, shallow=False):
            continue
        before = read_text(old / name, _MAX_COMPARED_BYTES) if was_there else ""
        after = read_text(new / name, _MAX_COMPARED_BYTES) if is_there else ""
        lines: Iterable[str] = ()
        if before is not None and after is not None:
            lines = unified_diff(
                before.splitlines(), after.splitlines(), f"{name} now", f"{name} new", lineterm="", n=2
            )
        change = "added" if not was_there else "changed" if is_there else "removed"
        parts.append("\n".join(lines) or f"{name}: {change}, not shown")  # such as other line ends
    text = "\n".join(parts)
    return (
        text
        if len(text) <= _MAX_DIFF_CHARS
        else f"{text[:_MAX_DIFF_CHARS]}\n… and {len(text) - _MAX_DIFF_CHARS:,} more characters"
    )


async def _fetch(library: SkillLibrary, source: str, guard: UrlGuard) -> Quarantined:
    parsed = parse_source(source)
    root = library.root / ".quarantine"
    make_private(root)
    for old in root.iterdir():
        if time.time() - old.stat().st_mtime > _OLD_SECONDS:  # left by a crash
            shutil.rmtree(old, ignore_errors=True)
    place = root / f"{time.time_ns()}"
    make_private(place)
    try:
        folder = await fetch_skill(parsed, guard, place)
        inspection = await asyncio.to_thread(inspect_folder, folder)
        if inspection.blocking:
            raise CannotFetch("It is not installed: " + "; ".join(map(str, inspection.blocking[:5])) + ".")
        read = parse_skill(read_skill_file(folder / "SKILL.md"), fallback=folder.name)
        named = source if parsed.is_remote else parsed.address
        return Quarantined(
            name=read.name,
            description=read.description,
            source=named,
            folder=folder,
            place=place,
            inspection=inspection,
            sha256=hash_folder(folder),
        )
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise
