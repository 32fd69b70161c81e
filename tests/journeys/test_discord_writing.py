"""What is sent to and fro on Discord: files, long answers, formatting that is refused."""

from pathlib import Path

from playground.model_script import say
from tests.journeys.discord_stage import stage

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63f8cfc0000003010100c9fe92"
    "ef0000000049454e44ae426082"
)


async def test_files_are_kept_and_named_to_the_model_and_one_that_is_gone_is_told(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        async with on.gateway() as running:
            picture = {"name": "rose.png", "content": PIXEL, "mime_type": "image/png"}
            notes = {"name": "notes.txt", "content": b"twice a day"}
            await on.ask(on.owner, "what is this?", "Noted.", files=[picture, notes])
            for words in ("what is this?", "rose.png", "notes.txt"):
                assert words in on.model.newest_words()

            on.discord.faults.add("fail", "file", status=404)
            on.say(on.owner, "", files=[{"name": "lost.txt", "content": b"gone"}])
            await on.model.until_asked(2)
            assert "lost.txt" in on.model.newest_words()
            assert "Discord no longer has the file" in on.model.newest_words()
            await on.home.until_idle()
            await running.stop()
        assert on.model.refusals == []
        saved = [path.read_bytes() for path in on.home.path.rglob("*") if path.is_file()]
        assert PIXEL in saved
        assert b"twice a day" in saved


async def test_a_long_answer_comes_in_pieces_with_its_code_in_fences(tmp_path: Path) -> None:
    code = "\n".join(f"print({number})  # the line number {number} of all of them" for number in range(80))
    async with stage(tmp_path, otherwise=say(f"Like this:\n\n```python\n{code}\n```\n\nThat is all.")) as on:
        dm = on.dm(on.owner)
        async with on.gateway() as running:
            await on.ask(on.owner, "a long one", "That is all.")
            await running.stop()
        pieces = on.discord.texts(dm)
        assert 1 < len(pieces) <= 4
        assert all(len(piece) <= 2_000 for piece in pieces)
        assert all(piece.count("```") % 2 == 0 for piece in pieces)
        assert all("```python" in piece for piece in pieces)
        found = "\n".join(pieces)
        places = [found.index(f"print({number}) ") for number in range(80)]
        assert places == sorted(places)


async def test_a_book_is_attached_as_a_file(tmp_path: Path) -> None:
    book = "Chapter one. " + "And so on, and so on. " * 2_000 + "The end."
    async with stage(tmp_path, otherwise=say(book)) as on:
        dm = on.dm(on.owner)
        async with on.gateway() as running:
            await on.ask(on.owner, "a book", "attached as answer.md")
            shown = await on.hear_count(dm, 2)
            await running.stop()
        assert len(shown) == 2
        [attached] = on.discord.show(dm)[-1]["message"]["attachments"]
        assert attached["filename"] == "answer.md"
        [stored] = on.discord.world.files.values()
        assert stored.content.decode() == book


async def test_formatting_that_discord_refuses_is_left_out(tmp_path: Path) -> None:
    async with stage(tmp_path, otherwise=say("This is **bold** and `code`.")) as on:
        dm = on.dm(on.owner)
        async with on.gateway() as running:
            await on.ask(on.owner, "format", "This is **bold** and `code`.")
            errors = {"content": {"_errors": [{"code": "BASE_TYPE_BAD", "message": "not so"}]}}
            refusal = {"status": 400, "description": "Invalid Form Body", "extra": {"code": 50035, "errors": errors}}
            on.discord.faults.add("fail", "createMessage", **refusal)
            await on.ask(on.owner, "refused", "This is bold and code.")
            await running.stop()
        assert len(on.discord.texts(dm)) == 2
