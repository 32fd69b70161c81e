"""The one door for files that leave: what may pass it, and that nothing else does."""

import json
import os
import random
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.privileges import bound_by_file_modes
from tools import media
from tools.content import Part, text_of
from tools.media import MediaRefused, MediaRoots, open_media

MAX_BYTES = 1_000


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    (folder / "plots").mkdir(parents=True)
    (folder / "notes.txt").write_text("my notes")
    (folder / "plots" / "a b.png").write_bytes(b"a plot")
    return folder


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    file = tmp_path / "elsewhere" / "secret.txt"
    file.parent.mkdir()
    file.write_text("the canary")
    return file


def content(path: str | Path, *folders: Path, closed: tuple[Path, ...] = (), max_bytes: int = MAX_BYTES) -> bytes:
    with open_media(str(path), MediaRoots.of(folders, closed=closed), max_bytes=max_bytes) as opened:
        return opened.read()


def refusal(path: str | Path, *folders: Path, closed: tuple[Path, ...] = (), max_bytes: int = MAX_BYTES) -> str:
    with pytest.raises(MediaRefused) as caught:
        content(path, *folders, closed=closed, max_bytes=max_bytes)
    return str(caught.value)


# What passes.


@pytest.mark.parametrize("path", ["notes.txt", "./notes.txt", "plots/a b.png", "plots//a b.png"])
def test_a_relative_path_starts_in_the_first_folder(workspace: Path, path: str) -> None:
    assert content(path, workspace, workspace.parent) in (b"my notes", b"a plot")


def test_an_absolute_path_may_lie_below_any_folder(workspace: Path, secret: Path) -> None:
    assert content(workspace / "plots" / "a b.png", secret.parent, workspace) == b"a plot"


def test_a_folder_that_is_a_link_is_known_by_both_its_names(workspace: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(workspace)
    assert content(link / "notes.txt", link) == content(workspace / "notes.txt", link) == b"my notes"
    assert content("notes.txt", link) == b"my notes"


def test_what_is_opened_says_its_name_and_size(workspace: Path) -> None:
    (workspace / "odd\nname\x1b.txt").write_text("odd")
    with open_media("odd\nname\x1b.txt", MediaRoots.of([workspace]), max_bytes=MAX_BYTES) as opened:
        assert (opened.name, opened.size_bytes) == ("oddname.txt", 3)


def test_a_file_of_exactly_the_limit_passes(workspace: Path) -> None:
    (workspace / "full").write_bytes(bytes(MAX_BYTES))
    assert len(content("full", workspace)) == MAX_BYTES


def test_our_own_file_may_have_a_second_name(workspace: Path) -> None:
    os.link(workspace / "notes.txt", workspace / "again.txt")
    assert content("again.txt", workspace) == b"my notes"


# What does not.


@pytest.mark.parametrize("path", ["../elsewhere/secret.txt", "plots/../notes.txt", "..", "plots/.."])
def test_a_path_that_climbs_is_refused(workspace: Path, secret: Path, path: str) -> None:
    assert refusal(path, workspace) == f"`{path}` was not sent: a path with .. in it is not followed."


def test_what_lies_outside_is_refused_whether_it_is_there_or_not(workspace: Path, secret: Path) -> None:
    reason = "it is outside the folders from which files may be sent"
    assert reason in refusal(secret, workspace)
    assert reason in refusal(secret.with_name("missing"), workspace)
    assert reason in refusal(f"{workspace}2/notes.txt", workspace)
    assert reason in refusal(workspace, workspace)
    assert "files are not sent from here" in refusal("notes.txt")


def test_no_link_is_followed_below_the_folder(workspace: Path, secret: Path) -> None:
    (workspace / "link.txt").symlink_to(secret)
    (workspace / "inside.txt").symlink_to(workspace / "notes.txt")
    (workspace / "folder").symlink_to(secret.parent)
    assert "it is a link" in refusal("link.txt", workspace)
    assert "it is a link" in refusal("inside.txt", workspace)
    assert "its path contains a link" in refusal("folder/secret.txt", workspace)


def test_a_folder_that_became_a_link_later_is_not_followed(workspace: Path, secret: Path) -> None:
    roots = MediaRoots.of([workspace])
    workspace.rename(workspace.with_name("moved"))
    workspace.symlink_to(secret.parent)
    with (
        pytest.raises(MediaRefused, match="its path contains a link"),
        open_media("secret.txt", roots, max_bytes=MAX_BYTES),
    ):
        pass


def test_hidden_files_and_folders_are_not_sent(workspace: Path) -> None:
    (workspace / ".env").write_text("KEY=1")
    (workspace / ".ssh").mkdir()
    (workspace / ".ssh" / "id").write_text("key")
    for path in (".env", ".ssh/id", workspace / ".env"):
        assert "hidden folders are not sent" in refusal(path, workspace)
    for folders in ([workspace / ".ssh"], [workspace, workspace / ".ssh"]):  # whoever names the folder itself means it
        assert content(workspace / ".ssh" / "id", *folders) == b"key"


def test_a_closed_folder_gives_out_only_what_is_named_inside_of_it(workspace: Path) -> None:
    home = workspace / "hermes"
    (home / "cache").mkdir(parents=True)
    (home / "state.db").write_text("everything")
    (home / "cache" / "cat.png").write_text("a cat")
    assert "outside" in refusal(home / "state.db", workspace, home / "cache", closed=(home,))
    assert "outside" in refusal("hermes/state.db", workspace, closed=(home,))
    assert "outside" in refusal("state.db", home, closed=(home,))  # it does not open by being the workspace itself
    assert content(home / "cache" / "cat.png", workspace, home / "cache", closed=(home,)) == b"a cat"


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)  # its full path may be too long for one
    try:
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(path.name)
    finally:
        os.chdir(here)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (_fifo, "it is not a regular file"),
        (_socket, "it is not a regular file"),
        (Path.mkdir, "it is a folder"),
        (Path.touch, "it is empty"),
        (lambda path: None, "there is no such file"),
        (lambda path: path.write_bytes(bytes(MAX_BYTES + 1)), "it is larger than 1 KB"),
        (lambda path: os.truncate(os.open(path, os.O_CREAT | os.O_WRONLY), 1 << 40), "it is larger than"),
    ],
    ids=["fifo", "socket", "folder", "empty", "missing", "large", "sparse giant"],
)
def test_what_is_no_file_of_a_fair_size_is_refused_at_once(
    workspace: Path, make: Callable[[Path], object], words: str
) -> None:
    make(workspace / "odd")
    assert words in refusal("odd", workspace)


@pytest.mark.parametrize("path", ["/proc/self/environ", "/proc/version", "/sys/kernel/uevent_seqnum", "/dev/null"])
def test_what_the_kernel_makes_up_is_never_sent(path: str) -> None:
    assert "outside" in refusal(path, Path("/"))


def test_files_of_the_kernel_that_are_reached_by_another_name_are_empty_for_us(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(media, "SYSTEM_FOLDERS", ())
    assert "its path contains a link" in refusal("/proc/self/environ", Path("/proc"))
    assert "it is empty" in refusal(f"/proc/{os.getpid()}/environ", Path("/proc"))


def test_a_second_name_of_somebody_elses_file_is_refused(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.link(workspace / "notes.txt", workspace / "again.txt")
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert "a hard link to a file of another user" in refusal("again.txt", workspace)
    assert content("plots/a b.png", workspace) == b"a plot"  # one name: simply readable


def test_what_may_not_be_read_is_told(workspace: Path) -> None:
    (workspace / "notes.txt").chmod(0)
    with bound_by_file_modes():
        assert "the permissions do not allow it" in refusal("notes.txt", workspace)


def test_a_folder_on_the_way_need_only_be_passable(workspace: Path) -> None:
    workspace.chmod(0o100)
    try:
        with bound_by_file_modes():
            assert content("plots/a b.png", workspace) == b"a plot"
    finally:
        workspace.chmod(0o700)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("", "cannot be a file's"),
        ("/", "cannot be a file's"),
        (".", "cannot be a file's"),
        ("a\0b", "cannot be a file's"),
        ("\ud800", "cannot be a file's"),
        ("x" * 256, "its name is too long"),
        ("ä" * 128, "its name is too long"),
        ("x/" * 2_500 + "x", "its name is too long"),
    ],
)
def test_names_that_no_file_has_are_refused(workspace: Path, path: str, words: str) -> None:
    assert words in refusal(path, workspace)


def test_a_refusal_is_one_short_line_without_markup_of_the_path(workspace: Path) -> None:
    sentence = refusal("a`b\n*c*" + "x" * 5_000, workspace)
    assert len(sentence) < 200
    assert "\n" not in sentence
    assert sentence.count("`") == 2


# What changes while we look.


def test_a_file_that_grows_while_it_is_read_is_refused(workspace: Path) -> None:
    roots = MediaRoots.of([workspace])
    with open_media("notes.txt", roots, max_bytes=MAX_BYTES) as opened:
        (workspace / "notes.txt").write_bytes(bytes(10 * MAX_BYTES))
        with pytest.raises(MediaRefused, match="larger than"):
            opened.read()


def test_what_was_checked_is_what_is_read(workspace: Path, secret: Path) -> None:
    with open_media("notes.txt", MediaRoots.of([workspace]), max_bytes=MAX_BYTES) as opened:
        (workspace / "notes.txt").unlink()
        (workspace / "notes.txt").symlink_to(secret)
        assert opened.read() == b"my notes"


def test_the_file_is_closed_behind_us_whatever_happens(workspace: Path) -> None:
    (workspace / "link").symlink_to("notes.txt")
    before = len(os.listdir("/proc/self/fd"))
    for path in ("notes.txt", "link", "missing", "plots", "plots/a b.png/x", "../x"):
        for _ in range(5):
            try:
                content(path, workspace)
            except MediaRefused:
                continue
    assert len(os.listdir("/proc/self/fd")) == before


def test_whoever_swaps_a_file_for_a_link_while_we_read_gets_no_secret_out(workspace: Path, secret: Path) -> None:
    """Thousands of swaps under thousands of reads: some of them meet at every point in between.

    Swaps of folders are tried in backends/test_host_files.py; both come through tools/opening.py.
    """
    spot, fresh, stop, swaps = workspace / "swapped", workspace / "fresh", threading.Event(), 0

    def swap() -> None:
        nonlocal swaps
        while not stop.is_set():
            fresh.symlink_to(secret)
            fresh.replace(spot)
            fresh.write_text("harmless")
            fresh.replace(spot)
            swaps += 2

    thread = threading.Thread(target=swap)
    patience = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # or one of the two would run for long before the other has its turn
    thread.start()
    read = refused = 0
    try:
        while min(read, refused) < 50 or swaps < 2_000:
            try:
                found = content("swapped", workspace)
            except MediaRefused:
                refused += 1
            else:
                read += 1
                assert found == b"harmless"
    finally:
        sys.setswitchinterval(patience)
        stop.set()
        thread.join()


# Whatever a model may write.


def test_no_string_however_nasty_brings_anything_out_but_the_folders_own_files(workspace: Path, secret: Path) -> None:
    (workspace / "link.txt").symlink_to(secret)
    (workspace / "folder").symlink_to(secret.parent)
    (workspace / ".hidden").write_text("the canary")
    os.mkfifo(workspace / "fifo")
    for path in nasty_paths(workspace, secret, count=5_000):
        try:
            found = content(path, workspace)
        except MediaRefused as error:
            assert len(str(error)) < 300  # noqa: PT017 - nothing need be raised
        else:
            assert found in (b"my notes", b"a plot")


def told(output: object) -> str:
    if isinstance(output, tuple):
        parts: tuple[Part, ...] = output
        return text_of(parts)
    return output if isinstance(output, str) else json.dumps(output)


def nasty_paths(workspace: Path, secret: Path, *, count: int, seed: int = 8) -> list[str]:
    """Pieces that have broken path checks before, put together at random; the same every time."""
    chance = random.Random(seed)
    pieces = (
        *("/", "//", ".", "..", "../", "./", "...", "~", "~root", "%2e%2e", "%2f", "\\", "..\\", "\0", "\n", " ", "\t"),
        *("link.txt", "folder", ".hidden", "fifo", "notes.txt", "plots", "a b.png", "secret.txt", "elsewhere"),
        *(str(workspace), str(secret), str(secret.parent), str(workspace.parent), workspace.name, "x" * 300),
        *("/proc/self/root", "/proc/self/cwd", "/proc/self/fd/0", "/dev/fd/0", "/dev/stdin", "/etc/passwd", "file://"),
        *("\u202e", "\u2025", "\uff0e\uff0e\uff0f", "\ud800", "\udcff", "é", "e\u0301", "🙂", "*", "?", "$HOME"),
        *("`id`", ":"),
    )
    return ["".join(chance.choices(pieces, k=chance.randint(1, 7))) for _ in range(count)]
