"""Searching with ripgrep and without: the same is found, but for what ignore files name."""

import asyncio
import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.programs import needs
from tools.backends import files, search
from tools.backends.base import Command, FileRefused, Finished, Found, Search
from tools.backends.local import LocalBackend
from tools.backends.search import name_matches, segments_match

WITH_RIPGREP = [pytest.param(True, marks=needs("ripgrep")), False]

TREE = {
    "a.txt": "needle one\nhay\nneedle two\n",
    "b.py": "needle = 3\r\n",
    "no.txt": "nothing here",
    "binary": "needle\0",
    ".hidden": "needle",
    ".git/config": "needle",
    ".gitignore": "build/\n*.log\n!keep.log\n/top.txt\n# comment\nsub/**/deep.txt\n",
    ".ignore": "ignored.txt\n",
    "build/out.txt": "needle",
    "x.log": "needle",
    "keep.log": "needle",
    "top.txt": "needle",
    "ignored.txt": "needle",
    "sub/top.txt": "needle",
    "sub/build/x.txt": "needle",
    "sub/a/b/deep.txt": "needle",
    "sub/.gitignore": "local.txt\n!x.log\n",
    "sub/local.txt": "needle",
    "sub/x.log": "needle",
    "sub/node/ignored.txt": "needle",
}
SLOW = Command(text="sleep 60", timeout_seconds=1.0)
VISIBLE = ["a.txt", "b.py", "keep.log", "no.txt", "sub/top.txt", "sub/x.log"]
IGNORED = [name for name in TREE if name not in (*VISIBLE, "binary") and "/." not in f"/{name}"]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    for name, content in TREE.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content.encode())
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("needle")
    (root / "link.txt").symlink_to(outside / "secret.txt")
    (root / "folder").symlink_to(outside)
    return root


async def found(
    tree: Path, pattern: str, *, ripgrep: bool, target: str = "content", path: str = "", limit: int = 50
) -> Found:
    backend = LocalBackend(workspace=tree)
    if not ripgrep:
        backend.files._searcher = replace(backend.files._searcher, ripgrep="")
    where = str(tree / path) if path else str(tree)
    assert target in ("content", "files")
    return await backend.files.search(
        Search(pattern=pattern, path=where, target="files" if target == "files" else "content", limit=limit)
    )


def names(tree: Path, result: Found) -> list[str]:
    return sorted(str(Path(match.path).relative_to(tree)) for match in result.matches)


@pytest.mark.parametrize("ripgrep", WITH_RIPGREP)
async def test_lines_are_found_and_what_is_ignored_hidden_binary_or_linked_is_not(tree: Path, ripgrep: bool) -> None:
    if not ripgrep:
        assert set(IGNORED) <= set(names(tree, await found(tree, "needle", ripgrep=False)))
        for name in IGNORED:
            (tree / name).unlink()
    result = await found(tree, "needle", ripgrep=ripgrep)
    lines = [(str(Path(match.path).relative_to(tree)), match.line_number, match.text) for match in result.matches]
    assert lines == [
        ("a.txt", 1, "needle one"),
        ("a.txt", 3, "needle two"),
        ("b.py", 1, "needle = 3"),
        ("keep.log", 1, "needle"),
        ("sub/top.txt", 1, "needle"),
        ("sub/x.log", 1, "needle"),
    ]
    assert (result.more, result.counted_all) == (0, True)


@pytest.mark.parametrize("ripgrep", WITH_RIPGREP)
@pytest.mark.parametrize(
    ("pattern", "wanted"),
    [
        ("*", [*VISIBLE, "binary"]),
        ("*.txt", ["a.txt", "no.txt", "sub/top.txt"]),
        ("TOP", ["sub/top.txt"]),
        ("sub/*", ["sub/top.txt", "sub/x.log"]),
        ("**/*.log", ["keep.log", "sub/x.log"]),
        ("[ab].*", ["a.txt", "b.py"]),
        ("nothing-like-this", []),
    ],
)
async def test_names_are_found_by_glob_or_by_a_part(
    tree: Path, ripgrep: bool, pattern: str, wanted: Sequence[str]
) -> None:
    for name in IGNORED:
        (tree / name).unlink()
    assert names(tree, await found(tree, pattern, ripgrep=ripgrep, target="files")) == sorted(wanted)


@pytest.mark.parametrize("ripgrep", WITH_RIPGREP)
async def test_a_folder_further_down_is_searched_by_the_rules_above_it(tree: Path, ripgrep: bool) -> None:
    if ripgrep:
        assert names(tree, await found(tree, "needle", ripgrep=True, path="sub")) == ["sub/top.txt", "sub/x.log"]
    assert names(tree, await found(tree, "needle", ripgrep=ripgrep, path="a.txt")) == ["a.txt", "a.txt"]


@pytest.mark.parametrize("ripgrep", WITH_RIPGREP)
async def test_matches_beyond_the_limit_are_counted(tree: Path, ripgrep: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    (tree / "many.txt").write_text("needle\n" * (search.MAX_MATCHES_PER_FILE + 50))
    result = await found(tree, "needle", ripgrep=ripgrep, path="many.txt", limit=5)
    assert (len(result.matches), result.more, result.counted_all) == (5, search.MAX_MATCHES_PER_FILE - 5, False)
    few = await found(tree, "needle", ripgrep=ripgrep, path="a.txt", limit=1)
    assert (len(few.matches), few.more, few.counted_all) == (1, 1, True)


@pytest.mark.parametrize("ripgrep", WITH_RIPGREP)
async def test_long_lines_are_cut(tree: Path, ripgrep: bool) -> None:
    (tree / "long.txt").write_text("x" * 100_000 + "longneedle")
    (match,) = (await found(tree, "longneedle|^x", ripgrep=ripgrep, path="long.txt")).matches
    assert len(match.text) <= search.MAX_SHOWN_LINE_CHARS + 60


@pytest.mark.parametrize("ripgrep", WITH_RIPGREP)
async def test_a_pattern_that_is_none_is_said(tree: Path, ripgrep: bool) -> None:
    with pytest.raises(FileRefused, match=r"not a valid regular expression: .*\. Escape"):
        await found(tree, "a(", ripgrep=ripgrep)


@needs("busybox-static")
async def test_busybox_says_that_a_pattern_is_none(tree: Path, tmp_path: Path) -> None:
    for name in ("grep", "find", "cut"):
        (tmp_path / name).symlink_to(str(shutil.which("busybox")))
    backend = LocalBackend(workspace=tree)

    async def run(command: Command) -> Finished:
        return await backend.run(replace(command, text=f"PATH={tmp_path}:$PATH\n{command.text}"))

    backend.files._searcher = replace(backend.files._searcher, ripgrep="", run=run)
    assert (await backend.files.search(Search(pattern="need[l]e", path=str(tree)))).matches
    with pytest.raises(FileRefused, match=r"not a valid regular expression: bad regex .*\. Escape"):
        await backend.files.search(Search(pattern="a(", path=str(tree)))


@pytest.mark.parametrize("ripgrep", WITH_RIPGREP)
async def test_a_pattern_that_looks_like_an_option_is_a_pattern(tree: Path, ripgrep: bool) -> None:
    (tree / "options.txt").write_text("--files\n")
    assert names(tree, await found(tree, "--files", ripgrep=ripgrep)) == ["options.txt"]


async def test_an_expression_that_takes_for_ever_holds_nobody_up(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "SEARCH_SECONDS", 1.0)
    backend = LocalBackend(workspace=tree)
    backend.files._searcher = replace(backend.files._searcher, ripgrep="/bin/cat", run=lambda _: backend.run(SLOW))
    with pytest.raises(FileRefused, match="took longer than 1 seconds"):
        await backend.files.search(Search(pattern="needle", path=str(tree)))


@pytest.mark.parametrize("pattern", [r"\d+\s\w", "needle (?:one|two)$", "(a+)+$"])
async def test_without_ripgrep_expressions_are_those_of_perl(tree: Path, pattern: str) -> None:
    (tree / "trap.txt").write_text("a" * 60 + "!\n12 x\n")
    result = await found(tree, pattern, ripgrep=False)
    assert bool(result.matches) == (pattern != "(a+)+$")


@pytest.mark.parametrize("ripgrep", WITH_RIPGREP)
async def test_what_is_neither_file_nor_folder_is_refused_at_once(tree: Path, ripgrep: bool) -> None:
    os.mkfifo(tree / "pipe")  # whoever opens it waits for somebody who writes
    async with asyncio.timeout(20):
        with pytest.raises(FileRefused, match="not a regular file but a device, socket or pipe"):
            await found(tree, "needle", ripgrep=ripgrep, path="pipe")
        assert names(tree, await found(tree, "pipe", ripgrep=ripgrep, target="files")) == []


@pytest.mark.parametrize("ripgrep", WITH_RIPGREP)
@pytest.mark.parametrize("target", ["content", "files"])
async def test_folders_that_the_kernel_makes_up_are_not_even_entered(
    tree: Path, ripgrep: bool, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_up = tree / "pro[c]*"
    made_up.mkdir()
    (tree / "proc").mkdir()
    (tree / "proc" / "needle").write_text("needle")
    for number in range(100):
        (made_up / f"needle{number}").write_text("needle\n")
    monkeypatch.setattr(files, "SYSTEM_FOLDERS", (made_up,))
    monkeypatch.setattr(search, "_MAX_ANSWER_CHARS", 5_000)
    result = await found(tree, "needle", ripgrep=ripgrep, target=target)
    assert result.counted_all
    assert "proc/needle" in names(tree, result)
    assert not any(name.startswith("pro[") for name in names(tree, result))


@pytest.mark.parametrize("ripgrep", WITH_RIPGREP)
async def test_a_search_leaves_no_files_behind(tree: Path, ripgrep: bool, tmp_path: Path) -> None:
    backend = LocalBackend(workspace=tree, outputs=tmp_path / "outputs")
    if not ripgrep:
        backend.files._searcher = replace(backend.files._searcher, ripgrep="")
    await backend.files.search(Search(pattern="needle", path=str(tree)))
    assert list((tmp_path / "outputs").iterdir()) == []


# Names.


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("**/c", "a/b/c", True),
        ("**/c", "c", True),
        ("a/**", "a/b/c", True),
        ("a/**/c", "a/c", True),
        ("a/*", "a/b/c", False),
        ("a/*/c", "a/b/c", True),
        ("a/b", "a/b/c", False),
    ],
)
def test_two_stars_stand_for_any_number_of_folders(pattern: str, path: str, fits: bool) -> None:
    assert segments_match(pattern.split("/"), path.split("/")) is fits


def test_no_glob_takes_for_ever() -> None:
    assert not name_matches("*a" * 60 + "b", "a" * 200)
    assert not name_matches("**/" * 60 + "b", "a/" * 200 + "a")
