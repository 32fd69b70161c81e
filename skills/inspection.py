"""Inspect a skill from elsewhere before anybody uses it: links, programs, size, and text that should not be there."""

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from skills.format import FILE_NAME, MAX_FILE_BYTES, NotASkill, parse_skill, read_skill_file
from tools.scanner import scan

MAX_FILES = 300
MAX_BYTES = 10_000_000
_PICTURES = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"RIFF", b"%PDF-")


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillFinding:
    """Something in the folder of a skill that its owner should know."""

    file: str
    rule: str
    reason: str  # a clause: "it leads out of the skill"
    excerpt: str = ""
    is_blocking: bool = False  # cannot be overridden

    def __str__(self) -> str:
        return f"{self.file}: {self.reason}" + (f" ({self.excerpt})" if self.excerpt else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    files: tuple[str, ...]
    size_bytes: int
    findings: tuple[SkillFinding, ...]

    @property
    def blocking(self) -> Sequence[SkillFinding]:
        return [one for one in self.findings if one.is_blocking]


def inspect_folder(folder: Path) -> Inspection:
    """Look at every file of a skill, without following links and without running anything."""
    files: list[str] = []
    findings: list[SkillFinding] = []
    size = 0
    for path, name in _walk(folder):
        found = path.lstat()
        files.append(name)
        size += found.st_size
        if len(files) > MAX_FILES or size > MAX_BYTES:
            limit = f"it has more than {MAX_FILES} files or {MAX_BYTES // 1_000_000} MB"
            findings.append(SkillFinding(file=".", rule="too-large", reason=limit, is_blocking=True))
            break
        findings += _look_at_name(name)
        if path.is_symlink():
            link = {"rule": "symlink", "reason": "it is a link to elsewhere", "excerpt": str(path.readlink())}
            findings.append(SkillFinding(file=name, **link, is_blocking=True))
        elif not stat.S_ISREG(found.st_mode):
            reason = "it is no ordinary file"
            findings.append(SkillFinding(file=name, rule="special-file", reason=reason, is_blocking=True))
        else:
            findings += _look_at_content(path, name)
    try:
        parse_skill(read_skill_file(folder / FILE_NAME), fallback=folder.name)
    except (NotASkill, OSError) as error:
        findings.append(SkillFinding(file=FILE_NAME, rule="not-a-skill", reason=str(error), is_blocking=True))
    return Inspection(files=tuple(sorted(files)), size_bytes=size, findings=tuple(findings))


def _walk(folder: Path) -> Iterator[tuple[Path, str]]:
    for where, folders, names in os.walk(folder):
        if ".git" in folders:
            folders.remove(".git")
        links = [one for one in folders if (Path(where) / one).is_symlink()]
        for name in sorted([*names, *links]):
            path = Path(where) / name
            yield path, str(path.relative_to(folder))


def _look_at_name(name: str) -> Iterator[SkillFinding]:
    shown = name.encode("unicode_escape").decode() if not name.isprintable() else name
    if not name.isprintable() or any(one.rule == "hidden-unicode" for one in scan(name)):
        yield SkillFinding(file=shown, rule="odd-name", reason="its name has characters that cannot be seen")


def _look_at_content(path: Path, name: str) -> Iterator[SkillFinding]:
    with path.open("rb") as opened:
        content = opened.read(MAX_FILE_BYTES + 1)
    if content.startswith(_PICTURES):
        return
    try:
        if b"\0" in content:
            raise ValueError
        text = content[:MAX_FILE_BYTES].decode(
            "utf-8-sig", errors="strict" if len(content) <= MAX_FILE_BYTES else "replace"
        )
    except ValueError:
        yield SkillFinding(file=name, rule="binary", reason="it is a program or another file that nobody can read")
        return
    if len(content) > MAX_FILE_BYTES:
        yield SkillFinding(file=name, rule="long-text", reason=f"only its first {MAX_FILE_BYTES:,} bytes were read")
    for one in scan(text):
        yield SkillFinding(file=name, rule=one.rule, reason=one.reason, excerpt=one.excerpt)
