"""Installing and updating from folders, archives and git, under the URL guard."""

import asyncio
import io
import subprocess
import tarfile
import threading
import zipfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from skills.changes import undo
from skills.fetching import CannotFetch, SkillSource, parse_source
from skills.inspection import Inspection, inspect_folder
from skills.installing import describe, install, quarantine, quarantine_update
from skills.library import SkillLibrary
from tests.skills.writing import PLAIN, write_skill
from tools.errors import ToolFailed
from tools.url_guard import UrlGuard

NOBODY = UrlGuard()


@pytest.fixture
def library(tmp_path: Path) -> SkillLibrary:
    return SkillLibrary(root=tmp_path / "home" / "skills", builtin=tmp_path / "none")


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("ann/tools/skills/tea", SkillSource(address="https://github.com/ann/tools.git", path="skills/tea")),
        ("ann/tools", SkillSource(address="https://github.com/ann/tools.git")),
        ("https://github.com/ann/tools", SkillSource(address="https://github.com/ann/tools.git")),
        ("https://github.com/ann/tools.git", SkillSource(address="https://github.com/ann/tools.git")),
        (
            "https://github.com/ann/tools/tree/main/skills/tea",
            SkillSource(address="https://github.com/ann/tools.git", path="skills/tea", branch="main"),
        ),
        (
            "https://github.com/ann/tools/blob/main/skills/tea/SKILL.md",
            SkillSource(address="https://github.com/ann/tools.git", path="skills/tea", branch="main"),
        ),
        ("https://git.example/x.git", SkillSource(address="https://git.example/x.git")),
        ("https://x.example/a.zip", SkillSource(address="https://x.example/a.zip")),
        ("/srv/skills/tea", SkillSource(address="/srv/skills/tea")),
    ],
)
def test_sources(text: str, source: SkillSource) -> None:
    assert parse_source(text) == source


@pytest.mark.parametrize("text", ["", "tea", "ssh://x/y", "ann/../x/y", "file:///etc", "-oProxy=x", "ext::sh -c id"])
def test_what_is_no_source_is_refused(text: str) -> None:
    with pytest.raises(CannotFetch, match="is no source"):
        parse_source(text)


async def test_a_folder_is_installed_with_its_origin_and_updated_with_a_diff(
    library: SkillLibrary, tmp_path: Path
) -> None:
    folder = write_skill(tmp_path, "theirs/tea", references__more_md="Hot.")
    fetched = await quarantine(library, str(folder), NOBODY)
    assert "Install the skill tea from" in describe(fetched)
    assert library.find("tea") is None
    install(library, fetched)
    assert library.get("tea").source == str(folder)
    assert library.list_files(library.get("tea")) == ["references/more.md"]
    with pytest.raises(CannotFetch, match="here already"):
        await quarantine(library, str(folder), NOBODY)
    assert await quarantine_update(library, "tea", NOBODY) is None
    (folder / "references" / "more.md").write_text("Cold.")
    update = await quarantine_update(library, "tea", NOBODY)
    assert update is not None
    assert "-Hot.\n+Cold." in describe(update)
    (folder / "references" / "long.md").write_text("Milk. " * 50_000)
    (folder / "leaf.bin").write_bytes(b"\0green")
    update = await quarantine_update(library, "tea", NOBODY)
    assert update is not None
    assert "leaf.bin: added, not shown\nreferences/long.md: added, not shown\n" in describe(update)
    install(library, update)
    (folder / "references" / "long.md").write_text("Lemon " * 50_000)
    (folder / "leaf.bin").write_bytes(b"\0black")
    update = await quarantine_update(library, "tea", NOBODY)
    assert update is not None
    assert describe(update).endswith("leaf.bin: changed, not shown\nreferences/long.md: changed, not shown")
    (folder / "references" / "long.md").unlink()
    (folder / "leaf.bin").unlink()
    update = await quarantine_update(library, "tea", NOBODY)
    assert update is not None
    assert describe(update).endswith("leaf.bin: removed, not shown\nreferences/long.md: removed, not shown")
    mine = library.get("tea").folder / "SKILL.md"
    mine.write_text(mine.read_text() + "Mine.")
    update = await quarantine_update(library, "tea", NOBODY)
    assert update is not None
    assert "You have edited it" in describe(update)
    install(library, update)
    assert "Mine." not in library.get("tea").body
    undo(library, "tea")
    assert "Mine." in library.get("tea").body
    assert library.get("tea").source == str(folder)
    write_skill(library.root, "own")
    with pytest.raises(CannotFetch, match="not installed from elsewhere"):
        await quarantine_update(library, "own", NOBODY)


async def test_one_that_would_replace_a_bundled_skill_says_so(library: SkillLibrary, tmp_path: Path) -> None:
    write_skill(library.builtin, "tea")
    fetched = await quarantine(library, str(write_skill(tmp_path, "theirs/tea")), NOBODY)
    assert "take the place of the bundled skill tea" in describe(fetched)


async def test_what_changes_after_it_was_looked_at_is_not_installed(library: SkillLibrary, tmp_path: Path) -> None:
    fetched = await quarantine(library, str(write_skill(tmp_path, "theirs/tea")), NOBODY)
    (fetched.folder / "SKILL.md").write_text(PLAIN.format(name="tea", description="Another."))
    with pytest.raises(CannotFetch, match="has changed"):
        install(library, fetched)


async def test_nobody_waits_while_a_skill_is_looked_at(
    library: SkillLibrary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large one takes seconds."""
    loop, goes_on, inspect = asyncio.get_running_loop(), threading.Event(), inspect_folder

    def inspect_slowly(folder: Path) -> Inspection:
        loop.call_soon_threadsafe(goes_on.set)
        assert goes_on.wait(30)
        return inspect(folder)

    monkeypatch.setattr("skills.installing.inspect_folder", inspect_slowly)
    assert (await quarantine(library, str(write_skill(tmp_path, "theirs/tea")), NOBODY)).name == "tea"


async def test_archives_and_folders_of_several_skills(library: SkillLibrary, tmp_path: Path) -> None:
    write_skill(tmp_path, "theirs/skills/tea")
    write_skill(tmp_path, "theirs/skills/coffee")
    with pytest.raises(CannotFetch, match="There are 2 skills: coffee, tea"):
        await quarantine(library, str(tmp_path / "theirs"), NOBODY)
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(CannotFetch, match="There is no SKILL"):
        await quarantine(library, str(empty), NOBODY)
    packed = tmp_path / "tea.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("repo-main/tea/SKILL.md", PLAIN.format(name="tea", description="Tea."))
    assert (await quarantine(library, str(packed), NOBODY)).name == "tea"
    tarred = tmp_path / "coffee.tar.gz"
    with tarfile.open(tarred, "w:gz") as tar:
        tar.add(tmp_path / "theirs/skills/coffee", "coffee")
    assert (await quarantine(library, str(tarred), NOBODY)).name == "coffee"
    with pytest.raises(CannotFetch, match="There is no"):
        await quarantine(library, str(tmp_path / "nowhere"), NOBODY)


def make_repository(folder: Path) -> Path:
    """A bare repository with two skills."""
    work, bare = folder / "work", folder / "repos" / "ann.git"
    write_skill(work, "skills/tea")
    write_skill(work, "skills/coffee")
    git = ["git", "-c", "user.name=Ann", "-c", "user.email=ann@example.com", "-C", str(work)]
    for words in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "Skills"]):
        subprocess.run([*git, *words], check=True)
    subprocess.run(["git", "clone", "-q", "--bare", str(work), str(bare)], check=True)
    return bare


@asynccontextmanager
async def serving(root: Path) -> AsyncIterator[str]:
    """Git over HTTP on loopback, and archives beside it."""

    async def answer(request: web.Request) -> web.Response:
        if request.path.endswith(".zip"):
            packed = io.BytesIO()
            with zipfile.ZipFile(packed, "w") as archive:
                archive.writestr("tea/SKILL.md", PLAIN.format(name="tea", description="Packed."))
            return web.Response(body=packed.getvalue())
        variables = {
            "GIT_PROJECT_ROOT": str(root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": request.path,
            "QUERY_STRING": request.query_string,
            "REQUEST_METHOD": request.method,
            "CONTENT_TYPE": request.headers.get("Content-Type", ""),
            "GIT_PROTOCOL": request.headers.get("Git-Protocol", ""),
            "HTTP_CONTENT_ENCODING": request.headers.get("Content-Encoding", ""),
            "PATH": "/usr/bin:/bin",
        }
        process = await asyncio.create_subprocess_exec(
            "git", "http-backend", env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        output, _ = await process.communicate(await request.read())
        head, _, body = output.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
        status = int(headers.pop("Status", "200").split()[0])
        return web.Response(status=status, body=body, headers=headers)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, auto_decompress=False)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@pytest.mark.needs("git")
async def test_git_goes_through_the_guard(library: SkillLibrary, tmp_path: Path) -> None:
    make_repository(tmp_path)
    async with serving(tmp_path / "repos") as address:
        url = f"{address}/ann.git"
        with pytest.raises(ToolFailed, match="could not be cloned"):  # loopback is no public address
            await quarantine(library, url, NOBODY)
        allowed = UrlGuard.of(["127.0.0.1"])
        with pytest.raises(CannotFetch, match="There are 2 skills"):
            await quarantine(library, url, allowed)
        with pytest.raises(ToolFailed, match="could not be cloned"):
            await quarantine(library, f"{address}/other.git", allowed)
        with pytest.raises(ToolFailed):
            await quarantine(library, f"{address}/tea.zip", NOBODY)
        fetched = await quarantine(library, f"{address}/tea.zip", allowed)
        assert fetched.description == "Packed."
        install(library, fetched)
        assert library.get("tea").source == f"{address}/tea.zip"


@pytest.mark.needs("git")
async def test_a_local_repository_is_cloned(library: SkillLibrary, tmp_path: Path) -> None:
    bare = make_repository(tmp_path)
    with pytest.raises(CannotFetch, match="There are 2 skills: coffee, tea"):
        await quarantine(library, str(bare), NOBODY)
    fetched = await quarantine(library, str(tmp_path / "work" / "skills" / "tea"), NOBODY)
    assert fetched.name == "tea"
