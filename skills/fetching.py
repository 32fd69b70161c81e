"""Fetch a skill from a folder, an archive or a git repository into a quarantine. Nothing fetched is run or trusted."""

import asyncio
import contextlib
import re
import shutil
import stat
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from hermes_config import environment
from skills.format import FILE_NAME, load_skill
from skills.library import find_skills
from tools.backends.proxy import Proxy
from tools.errors import ToolFailed
from tools.url_guard import FetchLimits, UrlGuard, fetch

GITHUB = "https://github.com"
_MAX_ENTRIES = 5_000
_MAX_BYTES = 50_000_000  # of a whole repository or archive; one skill may have less
_GIT_SECONDS = 120.0
_ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
_SHORT = re.compile(r"[\w.-]+/[\w.-]+(?:/[\w./-]+)?")
_SAFE = (
    *("-c", "core.hooksPath=/dev/null", "-c", "credential.helper=", "-c", "core.fsmonitor=false"),
    *("-c", "submodule.recurse=false", "-c", "http.followRedirects=initial", "-c", "protocol.allow=never"),
)


class CannotFetch(ToolFailed):
    """A source cannot be fetched; the text says why, and what to give instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillSource:
    """Where a skill comes from."""

    address: str  # a URL or a path of this machine
    path: str = ""  # inside
    branch: str = ""

    @property
    def is_remote(self) -> bool:
        return self.address.startswith(("https://", "http://"))

    @property
    def is_archive(self) -> bool:
        return urlsplit(self.address).path.lower().endswith(_ARCHIVES)


def parse_source(text: str) -> SkillSource:
    """Read `https://github.com/user/repo/tree/main/path`, `user/repo/path`, a URL, a folder or an archive."""
    text = text.strip()
    local = Path(text).expanduser()
    if text.startswith(("/", "./", "../", "~")) or (text and local.exists()):
        return SkillSource(address=str(local.absolute()))
    if text.startswith(("https://", "http://")):
        url = urlsplit(text)
        parts = [part for part in url.path.split("/") if part]
        if url.hostname != "github.com" or text.lower().endswith(_ARCHIVES) or len(parts) < 2:
            return SkillSource(address=text)
        owner, repository, *rest = parts
        branch, path = (rest[1], rest[2:]) if rest[:1] in (["tree"], ["blob"]) and len(rest) > 1 else ("", rest)
        address = f"{GITHUB}/{owner}/{repository.removesuffix('.git')}.git"
        return SkillSource(address=address, path="/".join(path).removesuffix(FILE_NAME).rstrip("/"), branch=branch)
    if _SHORT.fullmatch(text) and ".." not in text:
        owner, repository, *rest = text.split("/")
        return SkillSource(address=f"{GITHUB}/{owner}/{repository}.git", path="/".join(filter(None, rest)))
    raise CannotFetch(f"{text!r} is no source. Give user/repo/path, an https address, a folder or an archive.")


async def fetch_skill(source: SkillSource, guard: UrlGuard, into: Path) -> Path:
    """Fetch a source into an empty folder and return the folder of its skill there. Raises ToolFailed."""
    content = into / "content"
    content.mkdir(parents=True)
    if source.is_remote and source.is_archive:
        document = await fetch(source.address, guard, FetchLimits(max_bytes=_MAX_BYTES, timeout_seconds=_GIT_SECONDS))
        await asyncio.to_thread(unpack, document.content, content)
    elif source.is_remote:
        await _clone(source, guard, content)
    else:
        await asyncio.to_thread(_take_local, Path(source.address), content)
        if (Path(source.address) / "objects").is_dir():  # a bare repository
            shutil.rmtree(content)
            await _clone(source, guard, content)
    return await asyncio.to_thread(_locate, content, source)


def unpack(archive: bytes, into: Path) -> None:
    """Unpack an archive without links, within limits. Raises CannotFetch, whatever is in it."""
    try:
        if zipfile.is_zipfile(BytesIO(archive)):
            with zipfile.ZipFile(BytesIO(archive)) as opened:
                _write_all(_read_zip(opened), into)
        else:
            with tarfile.open(fileobj=BytesIO(archive)) as tar:
                _write_all(_read_tar(tar), into)
    except (zipfile.BadZipFile, tarfile.TarError, EOFError, OSError, RuntimeError, NotImplementedError) as error:
        raise CannotFetch(f"The archive cannot be unpacked: {str(error) or type(error).__name__}.") from error


def _read_zip(opened: zipfile.ZipFile) -> Iterator[tuple[str, bytes]]:
    for entry in opened.infolist():
        if stat.S_ISLNK(entry.external_attr >> 16):
            raise CannotFetch(f"The archive has a link, {entry.filename!r}. Nothing was taken.")
        if not entry.is_dir():
            with opened.open(entry) as file:
                yield entry.filename, file.read(_MAX_BYTES + 1)


def _read_tar(opened: tarfile.TarFile) -> Iterator[tuple[str, bytes]]:
    for entry in opened:
        if entry.isdir() or entry.type in (tarfile.XGLTYPE, tarfile.XHDTYPE):
            continue
        file = opened.extractfile(entry) if entry.isreg() else None
        if file is None:
            raise CannotFetch(f"The archive has a link or a device, {entry.name!r}. Nothing was taken.")
        yield entry.name, file.read(_MAX_BYTES + 1)


def _write_all(files: Iterator[tuple[str, bytes]], into: Path) -> None:
    size = 0
    for number, (name, content) in enumerate(files):
        size += len(content)
        if size > _MAX_BYTES or number >= _MAX_ENTRIES:
            raise CannotFetch(f"The archive has more than {_MAX_BYTES // 1_000_000} MB or {_MAX_ENTRIES:,} files.")
        path = PurePosixPath(name.replace("\\", "/"))
        if path.is_absolute() or ".." in path.parts or not path.parts or ":" in path.parts[0]:
            raise CannotFetch(f"The archive has a path that leads out of it, {name!r}. Nothing was taken.")
        target = into / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)


def _take_local(path: Path, into: Path) -> None:
    if path.is_file() and path.name == FILE_NAME:
        path = path.parent
    if path.is_file():
        if path.stat().st_size > _MAX_BYTES:
            raise CannotFetch(f"{path} is larger than {_MAX_BYTES // 1_000_000} MB.")
        unpack(path.read_bytes(), into)
    elif path.is_dir():
        files = [one for one in path.rglob("*") if ".git" not in one.relative_to(path).parts]
        if len(files) > _MAX_ENTRIES or sum(one.lstat().st_size for one in files) > _MAX_BYTES:
            raise CannotFetch(f"{path} has more than {_MAX_ENTRIES:,} files or {_MAX_BYTES // 1_000_000} MB.")
        ignored = shutil.ignore_patterns(".git", "__pycache__")
        shutil.copytree(path, into / path.name, symlinks=True, ignore=ignored, copy_function=_copy_plain)
    else:
        raise CannotFetch(f"There is no {path}.")


def _copy_plain(source: str, target: str, *, follow_symlinks: bool = True) -> None:
    mode = Path(source).lstat().st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISLNK(mode):
        raise CannotFetch(f"{source} is no ordinary file. Nothing was taken.")
    shutil.copy(source, target, follow_symlinks=False)


async def _clone(source: SkillSource, guard: UrlGuard, into: Path) -> None:
    """Clone with git, whose connections go through our proxy: it reaches public addresses only."""
    if shutil.which("git") is None:
        raise CannotFetch("git is not installed. Give the address of an archive, or download the skill and name it.")

    async def may_connect(host: str) -> bool:
        return True

    proxy = Proxy(guard, may_connect)
    port = await proxy.open_port()
    schemes = ("https", "http") if source.is_remote else ("file",)
    options = [*_SAFE, "-c", f"http.proxy=http://127.0.0.1:{port}"]
    for scheme in schemes:
        options += ["-c", f"protocol.{scheme}.allow=always"]
    branch = ["--branch", source.branch] if source.branch else []
    address = source.address if source.is_remote else f"file://{source.address}"
    clone = ["clone", "--quiet", "--depth", "1", "--no-tags", "--single-branch", *branch, "--", address, str(into)]
    shell = {"PATH": environment.get("PATH"), "HOME": str(into.parent), "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"}
    shell |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_ASKPASS": "true"}
    try:
        process = await asyncio.create_subprocess_exec(
            "git", *options, *clone, env=shell, stdin=-3, stdout=-3, stderr=-1, start_new_session=True
        )
        problem = await _watch(process, into)
    finally:
        proxy.close()
    if problem:
        raise CannotFetch(f"{source.address} could not be cloned: {problem}")


async def _watch(process: asyncio.subprocess.Process, folder: Path) -> str:
    """Wait for git; return what went wrong. A repository that grows without end is given up."""
    assert process.stderr is not None
    reading = asyncio.create_task(process.stderr.read(20_000))
    problem = "it took too long."
    try:
        for _ in range(int(_GIT_SECONDS)):
            with contextlib.suppress(TimeoutError):
                code = await asyncio.wait_for(process.wait(), 1)
                said = (await reading).decode(errors="replace").strip().splitlines()
                return "" if not code else " ".join(said[-2:]) or f"git ended with {code}."
            if await asyncio.to_thread(_measure, folder) > _MAX_BYTES:
                problem = f"it has more than {_MAX_BYTES // 1_000_000} MB."
                break
        return problem
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        reading.cancel()


def _measure(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            total += path.lstat().st_size
    return total


def _locate(content: Path, source: SkillSource) -> Path:
    """Return the one skill in what was fetched, or the one that the source names."""
    root = content / source.path
    if not root.resolve().is_relative_to(content.resolve()):
        raise CannotFetch(f"{source.path} leads out of {source.address}.")
    candidates = [root] if (root / FILE_NAME).is_file() else [skill.folder for skill in find_skills(root)]
    if source.path and not candidates:  # a name alone, wherever the repository has it
        wanted = PurePosixPath(source.path).name
        candidates = [skill.folder for skill in find_skills(content) if wanted in (skill.name, skill.folder.name)]
    if len(candidates) == 1:
        return candidates[0]
    if not candidates:
        raise CannotFetch(f"There is no {FILE_NAME} in {source.address}{f' at {source.path}' if source.path else ''}.")
    names = ", ".join(sorted(load_skill(one).name for one in candidates)[:30])
    raise CannotFetch(f"There are {len(candidates)} skills: {names}. Name one, such as user/repo/NAME.")
