"""Files within walls, and without: what is opened is what was allowed, whoever changes it meanwhile."""

import ctypes
import os
import socket
import stat
import sys
import threading
from pathlib import Path

import pytest

from tests.privileges import bound_by_file_modes
from tools.backends.base import Command, FileRefused, Finished
from tools.backends.files import MAX_LINE_BYTES, HostFiles
from tools.backends.search import BackendFolder, Searcher

LIBC = ctypes.CDLL(None)
AT_FDCWD, RENAME_EXCHANGE = -100, 2


async def no_commands(command: Command) -> Finished:
    raise AssertionError("files are read and written without a command")


SEARCHER = Searcher(ripgrep="", run=no_commands)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "notes.txt").write_text("one\ntwo\nthree\n")
    return folder


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    file = tmp_path / "elsewhere" / "secret.txt"
    file.parent.mkdir()
    file.write_text("the canary")
    return file


@pytest.fixture
def walled(workspace: Path) -> HostFiles:
    return HostFiles(places=lambda: [BackendFolder(spelled=workspace, real=workspace)], searcher=SEARCHER)


@pytest.fixture
def free() -> HostFiles:
    return HostFiles(
        places=lambda: [BackendFolder(spelled=Path("/"), real=Path("/"))], searcher=SEARCHER, follows_links=True
    )


async def content(files: HostFiles, path: Path | str) -> bytes:
    return (await files.read(str(path), max_bytes=1_000)).content


async def refusal(files: HostFiles, path: Path | str) -> str:
    with pytest.raises(FileRefused) as refused:
        await content(files, path)
    return refused.value.reason


# Reading.


async def test_lines_are_counted_and_given_by_number(walled: HostFiles, workspace: Path) -> None:
    read = await walled.read_lines(f"{workspace}/notes.txt", first=2, count=1)
    assert ([line.text for line in read.lines], read.total_lines, read.counted_all) == (["two"], 3, True)
    beyond = await walled.read_lines(f"{workspace}/notes.txt", first=9, count=5)
    assert (beyond.lines, beyond.total_lines) == ((), 3)


@pytest.mark.parametrize(
    ("written", "lines"),
    [(b"", []), (b"a", ["a"]), (b"a\n", ["a"]), (b"a\r\n\r\nb", ["a", "", "b"]), (b"\xff\n", ["\ufffd"])],
)
async def test_lines_end_as_they_do(walled: HostFiles, workspace: Path, written: bytes, lines: list[str]) -> None:
    (workspace / "file").write_bytes(written)
    read = await walled.read_lines(f"{workspace}/file", first=1, count=10)
    assert ([line.text for line in read.lines], read.total_lines) == (lines, len(lines))


async def test_an_endless_line_is_cut_and_the_next_is_still_the_next(walled: HostFiles, workspace: Path) -> None:
    (workspace / "file").write_bytes(b"x" * 5_000_000 + b"\nsecond\n")
    read = await walled.read_lines(f"{workspace}/file", first=1, count=2)
    assert (len(read.lines[0].text), read.lines[0].left_out_bytes) == (MAX_LINE_BYTES, 5_000_001 - MAX_LINE_BYTES)
    assert (read.lines[1].text, read.total_lines) == ("second", 2)


async def test_of_a_huge_file_only_the_beginning_is_counted(
    walled: HostFiles, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tools.backends.files.MAX_LOOKED_AT_BYTES", 1_000_000)
    (workspace / "file").write_bytes(b"123456789\n" * 500_000)
    read = await walled.read_lines(f"{workspace}/file", first=1, count=1)
    assert not read.counted_all
    assert 100_000 <= read.total_lines < 500_000


async def test_binary_files_folders_pipes_sockets_and_devices_are_told_in_words(
    walled: HostFiles, free: HostFiles, workspace: Path
) -> None:
    (workspace / "picture").write_bytes(b"\x89PNG\0\0")
    os.mkfifo(workspace / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(workspace / "socket"))
    with pytest.raises(FileRefused, match="it is a binary file of 6 bytes"):
        await walled.read_lines(f"{workspace}/picture", first=1, count=1)
    assert "it is a folder" in await refusal(walled, workspace)
    assert "device, socket or pipe" in await refusal(walled, workspace / "pipe")
    assert "device, socket or pipe" in await refusal(walled, workspace / "socket")
    for path in ("/proc/self/environ", "/dev/zero", "/sys/kernel/vmcoreinfo"):
        assert "provided by the kernel" in await refusal(free, path)
    assert "it is a folder" in await refusal(free, "/")


async def test_a_file_larger_than_asked_for_is_refused(walled: HostFiles, workspace: Path) -> None:
    (workspace / "large").write_bytes(bytes(1_001))
    assert "larger than 1 KB" in await refusal(walled, workspace / "large")


@pytest.mark.parametrize("path", ["relative", "/a\0b", "/\ud800", "/" + "x" * 300, ""])
async def test_what_cannot_be_a_path_is_refused(free: HostFiles, path: str) -> None:
    assert await refusal(free, path) in ("that is not a valid path of a file", "its name is too long")


async def test_what_we_may_not_read_is_said(free: HostFiles, workspace: Path) -> None:
    (workspace / "notes.txt").chmod(0)
    # In this very thread: the rights that are given up here would not be given up in another.
    with bound_by_file_modes(), pytest.raises(PermissionError), free._open(f"{workspace}/notes.txt"):
        pass


# Walls.


@pytest.mark.parametrize(
    "path", ["{secret}", "{workspace}/../elsewhere/secret.txt", "{workspace}2/x", "//{secret}", "/", "{workspace}/.."]
)
async def test_what_lies_outside_is_refused_and_the_inside_named(
    walled: HostFiles, workspace: Path, secret: Path, path: str
) -> None:
    reason = await refusal(walled, path.format(secret=secret, workspace=workspace))
    assert reason == f"it is outside the folders that can be reached from here: {workspace}"


async def test_dots_within_the_walls_are_fine(walled: HostFiles, workspace: Path) -> None:
    assert await content(walled, f"{workspace}/sub/.././notes.txt") == b"one\ntwo\nthree\n"


async def test_no_link_is_followed_within_walls(walled: HostFiles, workspace: Path, secret: Path) -> None:
    (workspace / "link").symlink_to(secret)
    (workspace / "folder").symlink_to(secret.parent)
    assert "it is a link" in await refusal(walled, workspace / "link")
    assert "its path contains a link" in await refusal(walled, workspace / "folder" / "secret.txt")
    for path in ("link", "folder/secret.txt", "folder/new.txt"):
        with pytest.raises(FileRefused):
            await walled.write(f"{workspace}/{path}", b"overwritten")
    with pytest.raises(FileRefused):
        await walled.list_folder(f"{workspace}/folder", max_entries=10)
    assert secret.read_text() == "the canary"
    assert os.listdir(secret.parent) == ["secret.txt"]


async def test_without_walls_links_are_followed_as_people_expect(
    free: HostFiles, workspace: Path, secret: Path
) -> None:
    (workspace / "link").symlink_to(secret)
    assert await content(free, workspace / "link") == b"the canary"
    await free.write(f"{workspace}/link", b"changed")
    assert (workspace / "link").is_symlink()
    assert secret.read_text() == "changed"


@pytest.mark.parametrize("way", ["secret.txt", "link", "folder/secret.txt"])
async def test_what_is_closed_is_closed_by_whatever_way(workspace: Path, secret: Path, way: str) -> None:
    (secret.parent / "link").symlink_to(secret)
    (secret.parent / "folder").symlink_to(secret.parent)
    root = BackendFolder(spelled=Path("/"), real=Path("/"))
    files = HostFiles(places=lambda: [root], searcher=SEARCHER, follows_links=True, closed=[secret])
    assert "secrets or state of Hermes" in await refusal(files, secret.parent / way)
    with pytest.raises(FileRefused, match="secrets or state of Hermes"):
        await files.write(f"{secret.parent}/{way}", b"overwritten")


async def test_a_place_may_have_another_name_inside_and_be_for_reading_only(tmp_path: Path, workspace: Path) -> None:
    (tmp_path / "scratch").mkdir()
    files = HostFiles(
        places=lambda: [
            BackendFolder(spelled=Path("/tmp"), real=tmp_path / "scratch"),
            BackendFolder(spelled=workspace, real=workspace, writable=False),
        ],
        searcher=SEARCHER,
    )
    await files.write("/tmp/a/b", b"inside")
    assert (tmp_path / "scratch" / "a" / "b").read_bytes() == b"inside"
    assert await content(files, workspace / "notes.txt") == b"one\ntwo\nthree\n"
    with pytest.raises(FileRefused, match="is read-only"):
        await files.write(f"{workspace}/notes.txt", b"x")


# Writing.


async def test_a_file_is_made_with_its_folders_and_replaced_as_a_whole(walled: HostFiles, workspace: Path) -> None:
    path = f"{workspace}/a/b/c.txt"
    assert (await walled.write(path, b"first")).created
    reader = (workspace / "a/b/c.txt").open("rb")
    assert not (await walled.write(path, b"second")).created
    with reader:
        assert reader.read() == b"first"
    assert (workspace / "a/b/c.txt").read_bytes() == b"second"
    assert os.listdir(workspace / "a/b") == ["c.txt"]


async def test_its_mode_and_owner_stay(walled: HostFiles, workspace: Path) -> None:
    file = workspace / "script.sh"
    file.write_text("#!/bin/sh\n")
    file.chmod(0o751)
    if os.geteuid() == 0:
        os.chown(file, 12_345, 54_321)
    before = file.stat()
    await walled.write(str(file), b"#!/bin/sh\necho\n")
    after = file.stat()
    assert (stat.S_IMODE(after.st_mode), after.st_uid, after.st_gid) == (0o751, before.st_uid, before.st_gid)


async def test_a_new_file_has_the_mode_that_others_of_ours_have(walled: HostFiles, workspace: Path) -> None:
    (workspace / "by-python").touch()
    await walled.write(f"{workspace}/by-us", b"")
    assert (workspace / "by-us").stat().st_mode == (workspace / "by-python").stat().st_mode


async def test_what_must_not_be_replaced_is_not(walled: HostFiles, workspace: Path) -> None:
    (workspace / "protected").write_text("old")
    (workspace / "protected").chmod(0o444)
    os.mkfifo(workspace / "pipe")
    for path, words in {"protected": "write-protected", "pipe": "device, socket or pipe", ".": "folder"}.items():
        with pytest.raises(FileRefused, match=words):
            await walled.write(f"{workspace}/{path}", b"new")
    assert (workspace / "protected").read_text() == "old"
    assert stat.S_ISFIFO((workspace / "pipe").stat().st_mode)


async def test_one_that_has_changed_since_it_was_read_is_left_alone(walled: HostFiles, workspace: Path) -> None:
    path = f"{workspace}/notes.txt"
    read = await walled.read(path, max_bytes=1_000)
    (workspace / "notes.txt").write_text("changed by somebody")
    with pytest.raises(FileRefused, match="has changed since"):
        await walled.write(path, b"ours", expected_version=read.facts.version)
    assert (workspace / "notes.txt").read_text() == "changed by somebody"
    assert os.listdir(workspace) == ["notes.txt"]


async def test_a_folder_is_listed_as_far_as_asked(walled: HostFiles, workspace: Path) -> None:
    (workspace / "link").symlink_to("/")
    (workspace / "sub").mkdir()
    listed = await walled.list_folder(str(workspace), max_entries=10)
    assert [(entry.name, entry.kind) for entry in listed] == [
        ("link", "link"),
        ("notes.txt", "file"),
        ("sub", "folder"),
    ]
    assert len(await walled.list_folder(str(workspace), max_entries=2)) == 2
    assert await walled.look(f"{workspace}/missing") is None
    assert (await walled.look(f"{workspace}/link")) is not None


# Whoever swaps a folder for a link while we are at it.


@pytest.mark.parametrize("what", ["read", "write"])
async def test_no_swap_however_fast_leads_outside(walled: HostFiles, workspace: Path, secret: Path, what: str) -> None:
    """Hundreds of swaps under hundreds of tries: some of them meet at every point in between."""
    spot, stop, swaps = workspace / "spot", threading.Event(), 0
    spot.mkdir()
    (spot / "secret.txt").write_text("harmless")

    (workspace / "link").symlink_to(secret.parent)
    names = [os.fsencode(workspace / name) for name in ("spot", "link")]

    def swap() -> None:
        nonlocal swaps
        while not stop.is_set():
            assert LIBC.renameat2(AT_FDCWD, names[0], AT_FDCWD, names[1], RENAME_EXCHANGE) == 0
            swaps += 1

    thread = threading.Thread(target=swap)
    patience = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    thread.start()
    refused = done = 0
    try:
        while min(refused, done) < 20 or swaps < 500:
            try:
                if what == "read":
                    assert await content(walled, spot / "secret.txt") == b"harmless"
                else:
                    await walled.write(f"{spot}/secret.txt", b"harmless")
                    assert secret.read_text() == "the canary"
                done += 1
            except FileRefused:
                refused += 1
    finally:
        sys.setswitchinterval(patience)
        stop.set()
        thread.join()
    assert secret.read_text() == "the canary"
    assert os.listdir(secret.parent) == ["secret.txt"]
