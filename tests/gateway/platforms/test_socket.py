"""What a local script may say over the socket, and what it is answered."""

import asyncio
import contextlib
import os
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.errors import GatewayStopping, MediaUnavailable, PlatformUnavailable, StoreUnavailable
from gateway.messages import Media, Sender, SessionKey, Text
from gateway.platforms.socket import SocketPlatform
from tests.gateway.platforms.client import connect
from tests.gateway.platforms.gate import Gate
from tests.gateway.scene import soon


@asynccontextmanager
async def serving(platform: SocketPlatform, gate: Gate) -> AsyncIterator[asyncio.Task[None]]:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(platform.run(gate.inlet()))
        await gate.until(lambda: gate.heard)
        yield task
        task.cancel()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "hermes.sock"


async def test_a_message_is_acked_once_it_is_taken(path: Path) -> None:
    gate = Gate()
    async with serving(SocketPlatform(path), gate), connect(path) as client:
        ack = await client.ask(type="message", id="1", chat="build", text="hello", sender="ci")
    assert ack == {"type": "ack", "id": "1", "chat": "build"}
    [message] = gate.taken
    assert message.key == SessionKey(platform="socket", chat="build")
    assert (message.message_id, message.sender, message.parts) == (
        "1",
        Sender(id="ci", name="ci"),
        (Text(text="hello"),),
    )
    assert gate.heard == 2  # the connect, and a line


async def test_a_second_account_has_keys_of_its_own(path: Path) -> None:
    gate = Gate()
    async with serving(SocketPlatform(path, account="socket@work"), gate), connect(path) as client:
        await client.say("hello", message_id="1")
    assert str(gate.taken[0].key) == "socket@work:main"


BAD_LINES = (
    (b"hello\n", "not JSON"),
    (b"\n", "not JSON"),
    (b"\xff\xfe\n", "not JSON"),
    (b"[" * 100_000 + b"\n", "not JSON"),
    (b'"text"\n', "must be a JSON object"),
    (b"{}\n", '"type" must be one of message, listen, ack'),
    (b'{"type": ["message"]}\n', '"type" must be one of'),
    (b'{"type": "message", "text": "x"}\n', '"id" must be a text'),
    (b'{"type": "message", "text": "x", "id": 7}\n', '"id" must be a text'),
    (b'{"type": "message", "text": "x", "id": ""}\n', '"id" must be a text'),
    (b'{"type": "message", "text": "x", "id": "%s"}\n' % (b"x" * 201), '"id" must be a text'),
    (b'{"type": "message", "id": "1"}\n', 'needs "text" or "files"'),
    (b'{"type": "message", "id": "1", "text": "  "}\n', 'needs "text" or "files"'),
    (b'{"type": "message", "id": "1", "text": 7}\n', '"text" must be a text'),
    (b'{"type": "message", "id": "1", "files": "a.txt"}\n', '"files" a list of paths'),
    (b'{"type": "message", "id": "1", "files": [1]}\n', '"files" a list of paths'),
    (b'{"type": "message", "id": "1", "files": ["a\\u0000b"]}\n', "zero character"),
    (b'{"type": "message", "id": "1", "text": "\\ud800"}\n', "half a surrogate pair"),
    (b'{"type": "message", "id": "\\ud800", "text": "x"}\n', "half a surrogate pair"),
    (b'{"type": "message", "id": "1", "text": "x", "sender": "\\udfff"}\n', "half a surrogate pair"),
    (b'{"type": "message", "id": "1", "files": ["\\ud800.txt"]}\n', "half a surrogate pair"),
    (b'{"type": "message", "id": "1", "text": "x", "chat": ""}\n', '"chat" must be 1 to 64'),
    (b'{"type": "message", "id": "1", "text": "x", "chat": "a b"}\n', '"chat" must be 1 to 64'),
    (b'{"type": "message", "id": "1", "text": "x", "chat": "a:b"}\n', '"chat" must be 1 to 64'),
    (b'{"type": "message", "id": "1", "text": "x", "chat": null}\n', '"chat" must be 1 to 64'),
    (b'{"type": "listen", "chat": "%s"}\n' % (b"x" * 65), '"chat" must be 1 to 64'),
)


async def test_a_bad_line_is_explained_and_the_next_one_works(path: Path) -> None:
    gate = Gate()
    async with serving(SocketPlatform(path), gate), connect(path) as client:
        for number, (raw, problem) in enumerate(BAD_LINES):
            await client.write_raw(raw)
            answer = await client.read()
            assert answer is not None
            assert answer["type"] == "error", raw
            assert problem in answer["problem"]
            await client.say("hello", message_id=f"{number}")
    assert len(gate.taken) == len(BAD_LINES)


async def test_a_line_without_an_end_is_closed_with_a_reason(path: Path) -> None:
    gate = Gate()
    async with serving(SocketPlatform(path, max_line_bytes=1024), gate), connect(path) as client:
        await client.write_raw(b'{"type": "message", "id": "1", "text": "' + b"x" * 4000)
        answer = await client.read()
        assert answer == {"type": "error", "problem": "a line may have 1024 bytes at most; closing"}
        with contextlib.suppress(ConnectionResetError):  # the rest of the line was never read
            assert await client.read() is None
    assert gate.taken == []


async def test_half_a_line_at_the_end_is_nothing(path: Path) -> None:
    gate = Gate()
    async with serving(SocketPlatform(path), gate):
        async with connect(path) as client:
            await client.write_raw(b'{"type": "message", "id": "1", "text": "x"}')
        async with connect(path) as client:
            await client.say("hello", message_id="2")
    assert [message.message_id for message in gate.taken] == ["2"]


@pytest.mark.parametrize("error", [StoreUnavailable("the disk is full"), GatewayStopping("stopping")])
async def test_what_was_not_taken_is_to_be_sent_again(path: Path, error: Exception) -> None:
    gate = Gate()
    gate.refuse_with = [error]
    async with serving(SocketPlatform(path), gate), connect(path) as client:
        answer = await client.ask(type="message", id="1", text="hello")
        assert answer == {"type": "retry", "problem": str(error), "id": "1", "chat": "main"}
        await client.say("hello", message_id="1")


async def test_a_bug_costs_one_connection(path: Path) -> None:
    gate = Gate()
    gate.refuse_with = [ZeroDivisionError()]
    async with serving(SocketPlatform(path), gate), connect(path) as other:
        async with connect(path) as client:
            assert await client.ask(type="message", id="1", text="hello") is None
        await other.say("hello", message_id="2")


async def test_files_come_by_reference(path: Path, tmp_path: Path) -> None:
    gate = Gate()
    photo = tmp_path / "cat.png"
    photo.write_bytes(b"meow")
    platform = SocketPlatform(path)
    async with serving(platform, gate), connect(path) as client:
        await client.ask(type="message", id="1", text="look", files=[str(photo), "/nowhere/notes"])
    [text, image, notes] = gate.taken[0].parts
    assert text == Text(text="look")
    assert image == Media(kind="image", name="cat.png", mime="image/png", reference=str(photo))
    assert isinstance(notes, Media)
    assert notes.kind == "file"
    assert isinstance(image, Media)
    assert await platform.fetch(image, 4) == b"meow"


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda path: None, "No such file"),
        (lambda path: path.mkdir(), "Is a directory|not a regular file"),
        (lambda path: os.mkfifo(path), "not a regular file"),
        (lambda path: path.write_bytes(b"x" * 11), "larger than"),
        (lambda path: path.symlink_to("/proc/self/environ"), "generated by the kernel"),
    ],
)
async def test_a_file_that_cannot_be_had(path: Path, tmp_path: Path, make: Any, problem: str) -> None:
    target = tmp_path / "target"
    make(target)
    with pytest.raises(MediaUnavailable, match=problem):
        await soon(SocketPlatform(path).fetch(Media(kind="file", reference=str(target)), 10))


@pytest.mark.parametrize("name", ["/proc/self/environ", "/dev/../proc/self/environ", "/proc/self/cwd/pyproject.toml"])
async def test_what_the_kernel_makes_up_is_no_file(path: Path, name: str) -> None:
    with pytest.raises(MediaUnavailable, match="generated by the kernel"):
        await soon(SocketPlatform(path).fetch(Media(kind="file", reference=name), 1_000_000))


async def test_a_link_to_a_file_is_followed(path: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "link").symlink_to("notes.txt")
    assert await soon(SocketPlatform(path).fetch(Media(kind="file", reference=str(tmp_path / "link")), 10)) == b"mine"


async def test_the_socket_is_the_owners_alone_and_gone_afterwards(path: Path) -> None:
    path.write_text("left by a dead gateway")
    async with serving(SocketPlatform(path), Gate()):
        assert stat.S_ISSOCK(path.stat().st_mode)
        assert path.stat().st_mode & 0o777 == 0o600
    assert not path.exists()


@pytest.mark.parametrize("name", ["missing/hermes.sock", "x" * 120])
async def test_a_socket_that_cannot_be_opened_says_why(tmp_path: Path, name: str) -> None:
    with pytest.raises(PlatformUnavailable) as caught:
        await SocketPlatform(tmp_path / name).run(Gate().inlet())
    assert "None" not in str(caught.value)
