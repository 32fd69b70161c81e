"""A sticker is described once, and the descriptions outlive the process."""

import asyncio
import json
import stat
from collections.abc import Sequence
from pathlib import Path

import pytest

from agent_core.conversation import Message, assistant
from agent_core.events import Emit
from agent_core.model import ModelError
from gateway.media.stickers import MAX_STICKERS, StickerBook
from gateway.messages import Media
from tests.agent_core.scripted import ScriptedModel
from tools.base import Tool

PICTURE = Media(kind="image", mime="image/webp", sha256="ab" * 32)


async def bring() -> Media | None:
    return PICTURE


class Failing(ScriptedModel):
    async def reply(
        self, messages: Sequence[Message], tools: Sequence[Tool], emit: Emit, *, may_call: bool = True
    ) -> Message:
        await super().reply(messages, tools, emit, may_call=may_call)
        raise ModelError("no credit")


class Silent(ScriptedModel):
    async def reply(
        self, messages: Sequence[Message], tools: Sequence[Tool], emit: Emit, *, may_call: bool = True
    ) -> Message:
        await super().reply(messages, tools, emit, may_call=may_call)
        await asyncio.Event().wait()
        raise AssertionError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "sticker_cache.json"


async def test_the_answer_is_kept_for_its_owner_alone(file: Path) -> None:
    book = StickerBook(file, ScriptedModel([assistant("A cat.")]))
    assert [await book.describe("u", bring) for _ in range(2)] == ["A cat."] * 2
    assert json.loads(file.read_text()) == {"u": "A cat."}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in file.parent.iterdir()] == [file.name]


async def test_only_the_picture_and_the_question_are_asked(file: Path) -> None:
    model = ScriptedModel([assistant("A cat.")])
    await StickerBook(file, model).describe("u", bring)
    [(_, question)] = model.asked
    assert PICTURE in question.parts
    assert model.offered == [()]


@pytest.mark.parametrize("model", [Failing, Silent])
async def test_a_model_that_does_not_answer_is_asked_again_next_time(file: Path, model: type[ScriptedModel]) -> None:
    asked = model([assistant("x"), assistant("x")])
    book = StickerBook(file, asked, timeout_seconds=0.01)
    assert [await book.describe("u", bring) for _ in range(2)] == ["", ""]
    assert len(asked.asked) == 2
    assert not file.exists()


async def test_a_model_with_a_bug_costs_nothing_but_the_description(file: Path) -> None:
    assert await StickerBook(file, ScriptedModel([])).describe("u", bring) == ""


async def test_without_a_model_that_sees_nobody_is_asked_but_the_known_are_told(file: Path) -> None:
    file.write_text('{"u": "A cat."}')

    async def never_brought() -> Media | None:
        raise AssertionError

    book = StickerBook(file)
    assert await book.describe("u", never_brought) == "A cat."
    assert await book.describe("v", never_brought) == ""


@pytest.mark.parametrize("damaged", ["", "[", "[]", '{"u": 7}', "\\xff"])
async def test_a_damaged_file_is_made_anew(file: Path, damaged: str) -> None:
    file.write_text(damaged)
    book = StickerBook(file, ScriptedModel([assistant("A cat.")]))
    assert await book.describe("u", bring) == "A cat."
    assert json.loads(file.read_text()) == {"u": "A cat."}


async def test_the_file_does_not_grow_for_ever(file: Path) -> None:
    file.write_text(json.dumps({f"{number}": "x" for number in range(MAX_STICKERS + 50)}))
    book = StickerBook(file, ScriptedModel([assistant("y" * 1000)]))
    assert len(await book.describe("new", bring)) == 200
    kept = json.loads(file.read_text())
    assert len(kept) == MAX_STICKERS
    assert list(kept)[-1] == "new"


async def test_a_place_that_cannot_be_written_costs_only_the_memory(tmp_path: Path) -> None:
    book = StickerBook(tmp_path / "gone" / "sticker_cache.json", ScriptedModel([assistant("A cat.")]))
    assert await book.describe("u", bring) == "A cat."
