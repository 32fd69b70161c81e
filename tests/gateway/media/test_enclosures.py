"""From an answer that names files to the parts that are sent."""

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from agent_core.conversation import ToolCall, assistant, tool_result, user
from gateway.media.outgoing import MAX_FILES, Enclosures, detect_type
from gateway.messages import Media, Part, Text, text_of
from gateway.store import media, sessions, transcripts, turns
from gateway.store.db.connection import Transaction
from gateway.store.db.database import Database
from gateway.store.inbox import Accepted
from gateway.store.media import MediaFiles
from gateway.store.turns import Turn
from tests.agent_core.scripted import ScriptedModel
from tests.gateway.scene import ACCOUNT, begin, inbound, make_responder, rows
from tests.thorough import a_few_of
from tests.tools.test_media import nasty_paths
from tools.backends.base import FileRefused
from tools.content import load_parts
from tools.media import MediaRoots

PNG = b"\x89PNG\r\n\x1a\n and so on"
OGG = b"OggS\0 and so on"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "plot.png").write_bytes(PNG)
    (folder / "notes.txt").write_text("my notes")
    return folder


@pytest.fixture
def files(tmp_path: Path) -> MediaFiles:
    caches = tmp_path / "caches"
    return MediaFiles({kind: caches / kind for kind in ("image", "audio", "video", "file")})


@pytest.fixture
def enclosures(db: Database, files: MediaFiles, workspace: Path) -> Enclosures:
    def folder(turn: Turn) -> Path:
        return workspace if turn.is_with_owner else workspace.parent / f"of {turn.asked[0].person_id}"

    return Enclosures(
        db=db,
        files=files,
        accounts=frozenset((ACCOUNT,)),
        for_owner=MediaRoots.of([workspace]),
        folder=folder,
        home=lambda turn: workspace.parent if turn.is_with_owner else folder(turn),
        max_bytes=1_000,
    )


def turn_of(*, role: str = "owner", kind: str = "dm", session_id: str = "s1") -> Turn:
    message = inbound(kind=kind)
    accepted = Accepted(
        id=1,
        key=message.key,
        kind="message",
        message_id="1",
        sender_id="42",
        sender_name="Ada",
        person_id="p1",
        role=role,
        parts=message.parts,
    )
    return Turn(id="t1", session_key=str(message.key), session_id=session_id, messages=(accepted,))


async def enclosed(enclosures: Enclosures, text: str, turn: Turn | None = None) -> tuple[str, list[Media]]:
    parts = await enclosures.enclose(turn or turn_of(), (Text(text=text),))
    return text_of([part for part in parts if isinstance(part, Text)]), [
        part for part in parts if isinstance(part, Media)
    ]


# What is sent.


async def test_what_a_tool_made_for_the_chat_is_sent_once_although_nobody_names_it(
    db: Database, enclosures: Enclosures, files: MediaFiles, workspace: Path
) -> None:
    turn = turn_of()
    made = Media(kind="image", name="plot.png", mime="image/png", sha256=files.save("image", PNG), to_chat=True)
    kept = Media(kind="image", name="other.png", mime="image/png", sha256="1" * 64)
    result = tool_result(ToolCall(id="c1", name="image_generate", arguments="{}"), (Text(text="made"), made, kept))

    def store(tx: Transaction) -> str:
        session = sessions.open_current(tx, turn.asked[0].key)
        begun = turns.begin_at_terminal(tx, turn.asked[0].key, session.id)
        transcripts.append(tx, session.id, result, turn_id=begun.id)
        return f"{session.id} {begun.id}"

    session_id, turn_id = (await db.write(store)).split()
    of_this = replace(turn, session_id=session_id, id=turn_id)
    for text in ("Here it is.", "Here it is.\n\nMEDIA:plot.png"):
        said, parts = await enclosed(enclosures, text, of_this)
        assert said == "Here it is."
        assert [(part.name, part.to_chat) for part in parts] == [("plot.png", False)]
    assert (await enclosed(enclosures, "Later.", turn))[1] == []


async def test_a_named_file_becomes_a_part_whose_bytes_are_ours(
    enclosures: Enclosures, files: MediaFiles, workspace: Path
) -> None:
    text, [part] = await enclosed(enclosures, "Here:\n\nMEDIA:plot.png")
    assert text == "Here:"
    assert (part.kind, part.name, part.mime, part.size_bytes) == ("image", "plot.png", "image/png", len(PNG))
    (workspace / "plot.png").write_bytes(b"something else")
    assert files.load(part) == PNG


async def test_absolute_paths_and_pictures_are_named_as_well(enclosures: Enclosures, workspace: Path) -> None:
    text, parts = await enclosed(enclosures, f"MEDIA:{workspace}/notes.txt\n![a plot](plot.png)")
    assert text == ""
    assert [part.name for part in parts] == ["notes.txt", "plot.png"]


async def test_a_file_that_is_named_twice_is_sent_once(enclosures: Enclosures) -> None:
    _, parts = await enclosed(enclosures, "MEDIA:plot.png\n\n![again](plot.png)\n\nMEDIA:plot.png")
    assert [part.name for part in parts] == ["plot.png"]


async def test_two_files_of_one_name_are_told_apart(enclosures: Enclosures, workspace: Path) -> None:
    for number in "12":
        (workspace / number).mkdir()
        (workspace / number / "plot.png").write_bytes(PNG + number.encode())
    _, parts = await enclosed(enclosures, "MEDIA:1/plot.png\nMEDIA:2/plot.png\nMEDIA:plot.png")
    assert [part.name for part in parts] == ["plot.png", "plot (2).png", "plot (3).png"]


async def test_an_answer_without_files_is_left_as_it_is(enclosures: Enclosures) -> None:
    parts: Sequence[Part] = (Text(text="Use `MEDIA:plot.png`."), Media(kind="image", sha256="0" * 64))
    assert await enclosures.enclose(turn_of(), parts) == parts


async def test_where_no_files_can_be_sent_the_words_stay(enclosures: Enclosures) -> None:
    elsewhere = replace(enclosures, accounts=frozenset(("other",)))
    assert await enclosed(elsewhere, "MEDIA:plot.png") == ("MEDIA:plot.png", [])


@pytest.mark.parametrize(
    ("content", "name", "expected"),
    [
        (PNG, "plot.txt", ("image", "image/png")),
        (b"\xff\xd8\xff\xe0", "", ("image", "image/jpeg")),
        (OGG, "note.ogg", ("audio", "audio/ogg")),
        (b"\0\0\0\x18ftypmp42", "film", ("video", "video/mp4")),
        (b"just words", "notes.txt", ("file", "text/plain")),
        (b"a,b\n", "table.csv", ("file", "text/csv")),
        (b"just words", "plot.png", ("file", "text/plain")),
        (b"%PDF-1.7", "a.pdf", ("file", "application/pdf")),
        (b"\x00\x01\x02\x03", "x.bin", ("file", "application/octet-stream")),
    ],
)
def test_what_a_file_is_sent_as_is_told_by_its_bytes(content: bytes, name: str, expected: tuple[str, str]) -> None:
    assert detect_type(content, name) == expected


# What is not.


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("missing.png", "there is no such file"),
        ("/etc/passwd", "it is outside the folders from which files may be sent"),
        ("../x", "a path with .. in it is not followed"),
        ("large.bin", "it is larger than 1 KB, the limit for sending"),
        ("link.txt", "it is a link, and links are not followed"),
        (".env", "files that are hidden or in hidden folders are not sent"),
    ],
)
async def test_what_cannot_be_sent_is_told_where_it_was_named(
    enclosures: Enclosures, workspace: Path, path: str, reason: str
) -> None:
    (workspace / "large.bin").write_bytes(bytes(1_001))
    (workspace / "link.txt").symlink_to("notes.txt")
    (workspace / ".env").write_text("KEY=1")
    sentence = f"`{path}` was not sent: {reason}."
    assert await enclosed(enclosures, f"Here:\nMEDIA:{path}\nBye.") == (f"Here:\n{sentence}\nBye.", [])
    assert await enclosed(enclosures, f"See ![it]({path}) here.") == (f"See ({sentence}) here.", [])


async def test_one_answer_takes_ten_files(enclosures: Enclosures, workspace: Path) -> None:
    for number in range(MAX_FILES + 1):
        (workspace / f"{number}.txt").write_text(f"{number}")
    text, parts = await enclosed(enclosures, "\n".join(f"MEDIA:{number}.txt" for number in range(MAX_FILES + 1)))
    assert [part.name for part in parts] == [f"{number}.txt" for number in range(MAX_FILES)]
    assert text == "`10.txt` was not sent: an answer may have 10 files at most."


async def test_a_disk_without_room_is_told(
    enclosures: Enclosures, files: MediaFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(kind: str, content: bytes) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "save", full)
    text, parts = await enclosed(enclosures, "MEDIA:plot.png")
    assert (text, parts) == ("`plot.png` was not sent: it could not be stored (no space left on device).", [])


async def test_a_file_that_cannot_be_read_in_time_is_told(
    enclosures: Enclosures, files: MediaFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_go = threading.Event()
    monkeypatch.setattr(files, "save", lambda kind, content: let_go.wait(10) and "0" * 64)
    try:
        text, parts = await enclosed(replace(enclosures, timeout_seconds=0.01), "MEDIA:plot.png")
    finally:
        let_go.set()
    assert (text, parts) == ("`plot.png` was not sent: reading it took too long.", [])


# Who may.


async def keep(db: Database, files: MediaFiles, chat: str, content: bytes, name: str) -> tuple[str, Media]:
    """Somebody sent it in this conversation, which is named as well."""
    part = Media(kind="file", name=name, sha256=files.save("file", content), size_bytes=len(content))

    def unit(tx: Transaction) -> str:
        session = sessions.open_current(tx, inbound(chat=chat).key)
        transcripts.append(tx, session.id, replace(user(""), parts=(part,)))
        return session.id

    return await db.write(unit), part


@pytest.mark.parametrize(
    "turn", [turn_of(role="member"), turn_of(role="guest"), turn_of(kind="group")], ids=["member", "guest", "group"]
)
async def test_others_than_an_owner_alone_are_sent_files_of_their_conversation_and_workspace_only(
    db: Database, enclosures: Enclosures, files: MediaFiles, turn: Turn, workspace: Path
) -> None:
    session_id, mine = await keep(db, files, "ours", b"mine", "report.txt")
    _, others = await keep(db, files, "theirs", b"not yours", "diary.txt")
    turn = replace(turn, session_id=session_id)
    theirs, own = workspace.parent / "of p2" / "made.txt", workspace.parent / "of p1" / "made.txt"
    for folder in (theirs.parent, own.parent):
        folder.mkdir()
        (folder / "made.txt").write_text(folder.name)
    for path in ("plot.png", "diary.txt", others.sha256):
        text, parts = await enclosed(enclosures, f"MEDIA:{path}", turn)
        assert ("there is no such file" in text, parts) == (True, []), path
    for place in (workspace / "plot.png", theirs, files.path("file", others.sha256)):
        text, parts = await enclosed(enclosures, f"MEDIA:{place}", turn)
        assert ("it is outside the folders" in text, parts) == (True, []), place
    for path in ("made.txt", str(own)):
        _, [part] = await enclosed(enclosures, f"MEDIA:{path}", turn)
        assert files.load(part) == b"of p1"
    for path in ("report.txt", mine.sha256, str(files.path("file", mine.sha256))):
        text, [part] = await enclosed(enclosures, f"MEDIA:{path}", turn)
        assert (text, part.name, files.load(part)) == ("", "report.txt", b"mine")


async def test_the_home_is_that_of_whoever_asks(enclosures: Enclosures, workspace: Path, files: MediaFiles) -> None:
    own = workspace.parent / "of p1" / "plot.png"
    own.parent.mkdir()
    own.write_bytes(PNG + b" of p1")
    for line in ("MEDIA:~/plot.png", "![a plot](~/plot.png)", "MEDIA:file:~/plot.png"):
        _, [part] = await enclosed(enclosures, line, turn_of(role="member"))
        assert files.load(part) == PNG + b" of p1", line
    _, [part] = await enclosed(enclosures, "MEDIA:~/workspace/plot.png")
    assert files.load(part) == PNG


@pytest.mark.parametrize("turn", [turn_of(), turn_of(role="member")], ids=["owner", "member"])
async def test_where_the_home_is_is_not_told(enclosures: Enclosures, turn: Turn) -> None:
    text, _ = await enclosed(enclosures, "MEDIA:~/missing.png", turn)
    assert text.startswith("`~/missing.png` was not sent: ")


@pytest.mark.parametrize("batch", a_few_of(range(10), 1))
@pytest.mark.parametrize("form", ["MEDIA:{}", "![a plot]({})", "![a plot](<{}>)", "MEDIA:`{}`", "MEDIA:file://{}"])
@pytest.mark.parametrize("turn", [turn_of(), turn_of(role="member")], ids=["owner", "member"])
async def test_no_answer_however_nasty_brings_out_what_lies_beside(
    enclosures: Enclosures, files: MediaFiles, workspace: Path, turn: Turn, form: str, batch: int
) -> None:
    secret = workspace.parent / "elsewhere" / "secret.txt"
    secret.parent.mkdir()
    secret.write_text("the canary")
    folder = enclosures.folder(turn)
    folder.mkdir(exist_ok=True)
    (folder / "link.txt").symlink_to(secret)
    (folder / "folder").symlink_to(secret.parent)
    (folder / "notes.txt").write_text("my notes")
    for path in (str(secret), "link.txt", "folder/secret.txt", *nasty_paths(folder, secret, count=100, seed=batch)):
        text, parts = await enclosed(enclosures, form.format(path), turn)
        assert "the canary" not in text
        assert all(files.load(part) in (b"my notes", PNG) for part in parts), path


async def test_an_owner_names_files_of_the_conversation_too(
    db: Database, enclosures: Enclosures, files: MediaFiles
) -> None:
    await keep(db, files, "ours", b"first", "report.txt")
    session_id, _ = await keep(db, files, "ours", b"second", "report.txt")
    await keep(db, files, "ours", b"not this one", "notes.txt")
    turn = turn_of(session_id=session_id)
    _, [part] = await enclosed(enclosures, "MEDIA:report.txt", turn)
    assert files.load(part) == b"second"
    _, [own] = await enclosed(enclosures, "MEDIA:notes.txt", turn)
    assert files.load(own) == b"my notes"


async def test_a_file_of_the_conversation_that_is_no_longer_kept_is_told_by_its_own_name(
    db: Database, enclosures: Enclosures, files: MediaFiles
) -> None:
    session_id, mine = await keep(db, files, "ours", b"mine", "report.txt")
    files.path("file", mine.sha256).unlink()
    text, parts = await enclosed(enclosures, "MEDIA:report.txt", turn_of(role="member", session_id=session_id))
    assert (text, parts) == ("`report.txt` was not sent: there is no such file.", [])


# The commit.


async def test_the_transcript_keeps_the_models_own_words(db: Database, enclosures: Enclosures) -> None:
    responder = replace(make_responder(db, ScriptedModel([assistant("Here:\nMEDIA:plot.png")])), enclosures=enclosures)
    await responder.respond(await begin(db, inbound("hello"), role="owner"))
    [(told,)] = await rows(db, "SELECT parts FROM messages WHERE role = 'assistant'")
    assert text_of(load_parts(told)) == "Here:\nMEDIA:plot.png"
    [(said,)] = await rows(db, "SELECT parts FROM outbox")
    words, file = load_parts(said)
    assert (words, isinstance(file, Media)) == (Text(text="Here:"), True)
    assert await rows(db, "SELECT kind, size_bytes FROM media") == [("image", len(PNG))]


async def test_a_crash_between_copy_and_commit_does_it_again(
    db: Database, enclosures: Enclosures, workspace: Path, files: MediaFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn = await begin(db, inbound("hello"), role="owner")
    responder = replace(make_responder(db, ScriptedModel([assistant("MEDIA:plot.png")] * 2)), enclosures=enclosures)

    def killed(*arguments: object) -> None:
        raise RuntimeError("killed")

    with monkeypatch.context() as patched:
        patched.setattr("gateway.store.media.record_parts", killed)
        with pytest.raises(RuntimeError, match="killed"):
            await responder.respond(turn)
    assert await rows(db, "SELECT 1 FROM outbox UNION ALL SELECT 1 FROM media") == []
    assert len(list((workspace.parent / "caches" / "image").iterdir())) == 1
    (workspace / "plot.png").write_bytes(PNG + b"newer")
    [again] = await db.write(turns.resume_all)
    await responder.respond(again)
    [(sha256,)] = await rows(db, "SELECT sha256 FROM media")
    assert files.path("image", sha256).read_bytes() == PNG + b"newer"


async def test_only_what_has_bytes_is_recorded_as_kept(db: Database) -> None:
    parts = (Text(text="x"), Media(kind="file", name="a", problem="gone"), Media(kind="file", sha256="0" * 64))
    await db.write(lambda tx: media.record_parts(tx, parts))
    assert await rows(db, "SELECT sha256 FROM media") == [("0" * 64,)]


async def test_a_file_of_a_workplace_elsewhere_is_fetched_from_there(enclosures: Enclosures, workspace: Path) -> None:
    """A picture of ours, which a tool has made, still goes; a path of this machine that is not in a folder does not."""
    asked: list[str] = []

    async def fetch(turn: Turn, path: str, max_bytes: int) -> bytes | None:
        asked.append(path)
        if path != "/workspace/far.png":
            raise FileRefused(f"{path}: there is no such file.", reason="there is no such file")
        return PNG

    elsewhere = replace(enclosures, fetch=fetch)
    text, [sent] = await enclosed(elsewhere, "Look:\nMEDIA:/workspace/far.png")
    assert (text, sent.name, sent.size_bytes, asked) == ("Look:", "far.png", len(PNG), ["/workspace/far.png"])
    text, [sent] = await enclosed(elsewhere, f"MEDIA:{workspace}/plot.png")
    assert sent.name == "plot.png"
    text, none = await enclosed(elsewhere, "MEDIA:/etc/hostname")
    assert (none, "there is no such file" in text) == ([], True)
