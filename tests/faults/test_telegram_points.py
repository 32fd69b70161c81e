"""Kill -9 at every step that Telegram adds to the path of a message: nothing is lost, nothing comes twice unasked.

Slow, because every point costs a start of a real process. Steps that are the same on every platform have their rounds
in `test_ledger_points`.
"""

import asyncio
from itertools import chain
from pathlib import Path

import pytest

from playground.telegram.world import TelegramMessage
from tests.faults.chat_stage import Place
from tests.faults.points import NOT_RECORDED, NOTICE_NOT_RECORDED, PAIRED, POINTS, TAKEN, TELEGRAM_POINTS
from tests.faults.telegram_stage import AGAIN, TelegramStage, on_telegram_stage
from tests.thorough import a_few_of

pytestmark = pytest.mark.slow


def around(event: str) -> tuple[str, str]:
    return f"before:{event}", f"after:{event}"


# Run into one after the other, so that a recovery is cut off too. What comes of a doubt needs one first.
ROUNDS = [
    (TAKEN,),
    around("accepted"),
    around("sending"),
    around("sent"),
    around("piece_sent"),
    (NOT_RECORDED, *around("in_doubt")),
    (NOT_RECORDED, *around("notice_sending"), NOTICE_NOT_RECORDED),
    (NOT_RECORDED, *around("notice_sent")),
    (NOT_RECORDED, *around("button_accepted")),
    (NOT_RECORDED, *around("button_answered")),
    (NOT_RECORDED, *around("asked_again")),
]


def test_every_point_of_telegrams_own_has_its_round() -> None:
    assert set(TELEGRAM_POINTS) - set(POINTS) <= set(chain.from_iterable(ROUNDS)) <= set(TELEGRAM_POINTS)


@pytest.mark.parametrize(
    "points", a_few_of([pytest.param(points) for points in ROUNDS], 5), ids=lambda points: "+".join(points)
)
async def test_killed_at_any_point_all_is_answered_once_or_as_often_as_asked(
    points: tuple[str, ...], tmp_path: Path
) -> None:
    async with on_telegram_stage(tmp_path) as (stage, places), asyncio.TaskGroup() as group:
        pressing = group.create_task(stage.have_all_sent_again(places))
        for point in points:
            say_a_bit_of_everything(stage, places)
            await stage.run_into(point)
        await stage.start()
        verdict = await stage.finish()
        pressing.cancel()
        assert not verdict.offences, verdict
        assert verdict.accepted == verdict.answered + verdict.explained == 6 * len(points)


def say_a_bit_of_everything(stage: TelegramStage, places: list[Place]) -> None:
    one, two, _, topic = places
    stage.say(one, 'use side_effect {"id": "$id", "words": 2000}', expect="end of $id.")
    stage.say(one, "hello $id", expect="Hello!")
    stage.say(two, 'use side_effect {"id": "$id", "wait_ms": 10}')
    stage.say(two, "/status", expect="Model: demo")
    stage.say(topic, 'use side_effect {"id": "$id", "for": "@playground_bot"}', by=topic.people[0])
    stage.say(topic, 'use side_effect {"id": "$id", "for": "@playground_bot"}', by=topic.people[1])


async def test_what_was_taken_and_not_confirmed_comes_again_and_is_known(tmp_path: Path) -> None:
    async with on_telegram_stage(tmp_path) as (stage, (one, *_)):
        sent = stage.say(one, 'use side_effect {"id": "$id"}')
        await stage.run_into(TAKEN)
        assert not sent.acked
        await stage.start()
        verdict = await stage.finish()
        assert not verdict.offences, verdict
        assert (verdict.answered, verdict.effects) == (1, 1)


LONG = 'use side_effect {"id": "$id", "words": 2000}'


async def cut_off(stage: TelegramStage, place: Place, point: str, *, is_long: bool = False) -> None:
    """An answer that was cut off at the point, and a gateway that runs again."""
    if is_long:
        stage.say(place, LONG, expect="end of $id.")
    else:
        stage.say(place, "what is 17 * 23?", expect="17 * 23 = 391")
    await stage.run_into(point)
    await stage.start()


async def is_explained(stage: TelegramStage, place: Place) -> TelegramMessage:
    """The notice that stands in for an answer in doubt, once all is said."""
    notice = await stage.notice_of_doubt(place)
    await stage.at_rest()
    verdict = stage.judge()
    assert (verdict.explained, verdict.offences) == (1, {})
    return notice


async def test_an_answer_that_arrived_unrecorded_comes_again_only_when_asked_for(tmp_path: Path) -> None:
    async with on_telegram_stage(tmp_path) as (stage, (one, *_)):
        await cut_off(stage, one, NOT_RECORDED)
        notice = await stage.notice_of_doubt(one)
        assert not stage.judge().offences
        assert stage.texts(one)[0] == "17 * 23 = 391"
        stage.press(one, notice)
        verdict = await stage.finish()
        assert not verdict.offences, verdict
        assert stage.texts(one) == ["17 * 23 = 391", "Sent again:", "17 * 23 = 391"]
        assert (verdict.answered, verdict.copies) == (1, 1)


async def test_an_answer_that_was_never_sent_is_explained_and_can_be_had(tmp_path: Path) -> None:
    async with on_telegram_stage(tmp_path) as (stage, (one, *_)):
        await cut_off(stage, one, "after:sending")
        stage.press(one, await is_explained(stage, one))
        verdict = await stage.finish()
        assert not verdict.offences, verdict
        assert (verdict.answered, verdict.copies) == (1, 0)


async def test_a_long_answer_cut_between_two_pieces_goes_on_with_the_next(tmp_path: Path) -> None:
    async with on_telegram_stage(tmp_path) as (stage, (one, *_)):
        stage.say(one, LONG, expect="end of $id.")
        await stage.run_into("after:piece_sent")
        assert len(stage.texts(one)) == 1
        await stage.start()
        verdict = await stage.finish()
        assert not verdict.offences, verdict
        assert len(stage.texts(one)) == 3
        assert (verdict.answered, verdict.copies) == (1, 0)


async def test_a_long_answer_whose_first_piece_is_in_doubt_stops_there_until_asked_for(tmp_path: Path) -> None:
    async with on_telegram_stage(tmp_path) as (stage, (one, *_)):
        await cut_off(stage, one, "before:piece_sent", is_long=True)
        stage.press(one, await is_explained(stage, one))
        verdict = await stage.finish()
        assert not verdict.offences, verdict
        assert (verdict.answered, verdict.copies) == (1, 1)  # the first piece came twice, as it had to


@pytest.mark.parametrize("point", around(PAIRED))
async def test_who_was_let_in_and_not_told_is_told_after_the_start(point: str, tmp_path: Path) -> None:
    async with on_telegram_stage(tmp_path) as (stage, (owner, *_)):
        await stage.process.start(kill_at=point)
        stranger = stage.server.people.make_user("Stranger")["id"]
        stage.server.people.send_text(stranger, stranger, "let me in")
        told = await stage.server.wait_for_text(stranger, "this code", seconds=40)
        code = told["text"].partition("approve telegram ")[2].partition(" ")[0]
        stage.say(owner, f"/pairing approve telegram {code}", expect="Stranger")
        await stage.dies(point)
        assert len(stage.server.texts(stranger)) == 1
        await stage.start()
        await stage.server.wait_for_text(stranger, "You are in", seconds=40)
        stage.say(Place(chat=str(stranger), people=(str(stranger),)), "hello $id", expect="Hello!")
        verdict = await stage.finish()
        assert not verdict.offences, verdict
        assert verdict.answered + verdict.explained == 2  # the owner's own answer may have been cut off, too
        assert sum("You are in" in text for text in stage.server.texts(stranger)) == 1


async def test_a_press_that_was_taken_and_not_handled_is_handled_after_the_start(tmp_path: Path) -> None:
    async with on_telegram_stage(tmp_path) as (stage, (one, *_)):
        stage.say(one, "what is 17 * 23?", expect="17 * 23 = 391")
        await stage.run_into("after:sending")
        await stage.process.start(kill_at="after:button_accepted")
        stage.press(one, await stage.notice_of_doubt(one))
        await stage.dies("after:button_accepted")
        await stage.start()
        verdict = await stage.finish()
        assert not verdict.offences, verdict
        # Taken, handled and claimed may share one commit: then it is in doubt once more, and the chat is told so.
        assert (verdict.answered + verdict.explained, verdict.copies) == (1, 0)
        assert stage.texts(one)[0] == "Sent again:"


async def test_a_notice_cut_off_while_it_was_sent_comes_again(tmp_path: Path) -> None:
    async with on_telegram_stage(tmp_path) as (stage, (one, *_)):
        stage.say(one, "what is 17 * 23?", expect="17 * 23 = 391")
        for point in ("after:sending", "after:notice_sending", NOTICE_NOT_RECORDED):
            await stage.run_into(point)
        await stage.start()
        verdict = await stage.finish()
        assert not verdict.offences, verdict
        assert verdict.explained == 1
        buttons = [shown["buttons"] for shown in stage.server.show(int(one.chat)) if shown["by_bot"]]
        assert buttons == [[[AGAIN]]] * 2  # one of them came unrecorded: less harm than none


async def test_an_answer_asked_for_again_does_not_come_between_the_pieces_of_another(tmp_path: Path) -> None:
    async with on_telegram_stage(tmp_path) as (stage, (one, *_)):
        await cut_off(stage, one, "after:sending")
        notice = await is_explained(stage, one)
        stage.server.faults.add("slow", "sendMessage", chat_id=int(one.chat), seconds=1.5)
        stage.say(one, LONG, expect="end of $id.")
        async with asyncio.timeout(40):
            while stage.server.faults.waiting:  # until the first piece is under way
                await asyncio.sleep(0.01)
        stage.press(one, notice)
        verdict = await stage.finish()
        assert not verdict.offences, verdict
        assert stage.texts(one)[-1] == "17 * 23 = 391"
        assert (verdict.answered, verdict.copies) == (2, 0)
