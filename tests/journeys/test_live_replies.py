"""A reply that can be seen growing, on every platform: one draft, one message in the end, one ring.

Slow, since each story starts a real gateway, and groups on Telegram let a message be edited every four seconds only.
"""

from pathlib import Path

import pytest

from playground.model_script import ModelRefusal, ScriptedCall, ask_for, say
from tests.journeys.live_stage import GROUPS, KINDS, Chat, Kind, chat
from tests.thorough import a_few_of

pytestmark = pytest.mark.slow

CLOCK = ask_for(ScriptedCall(name="clock", arguments='{"timezone": "Europe/Berlin"}'))
TOLD = "clock: Europe/Berlin"
ANSWER = "It is late. Much later than you think."
PIECES = ("It is late.", " Much later", " than you think.")
WATCHING, AWAY = {"display": {"watching_seconds": 600}}, {"display": {"watching_seconds": 0}}
SEEN = {"telegram group": "👀", "discord channel": "👀", "slack channel": "eyes"}
FAILED = {"telegram group": "😢", "discord channel": "❌", "slack channel": "x"}


def plain(text: str) -> str:
    return text.replace("`", "")


async def grow(on: Chat) -> None:
    """A tool, then an answer in three pieces; each is seen before the next is said."""
    before, first, second, last = (on.model.hold(words) for words in (PIECES[0], "from here", *PIECES[1:]))
    on.model.script(CLOCK, say(*PIECES))
    first.set()
    on.ask()
    if on.kind in GROUPS:
        await on.sees("Thinking…")
    else:
        assert TOLD in plain(await on.sees("clock"))
    before.set()
    assert plain(await on.sees("It is late.")).startswith("✍️ Writing…")
    second.set()
    assert "than you think" not in await on.sees("Much later")
    last.set()


@pytest.mark.parametrize("kind", a_few_of(KINDS, 3))
@pytest.mark.parametrize("config", [WATCHING, AWAY], ids=["watching", "away"])
async def test_a_slow_answer_grows_and_in_the_end_one_message_stands(
    kind: Kind, config: dict[str, object], tmp_path: Path
) -> None:
    async with chat(tmp_path, kind, config=config) as on, on.gateway():
        await grow(on)
        await on.sees_nothing_but(ANSWER)
        await on.at_rest()
        assert on.shown == [ANSWER]
        is_quiet = config is WATCHING and kind.startswith(("telegram group", "discord"))
        assert on.rings() == (0 if is_quiet else 1)


@pytest.mark.parametrize("kind", a_few_of(KINDS, 3))
async def test_a_quick_answer_comes_as_it_always_did(kind: Kind, tmp_path: Path) -> None:
    async with chat(tmp_path, kind, config={"display": {"draft_after_seconds": 60}}) as on, on.gateway():
        on.ask()
        await on.sees_nothing_but("Noted.")
        await on.at_rest()
        assert on.rings() == 1
        edits = ("editMessageText", "editMessage", "chat.update", "sendMessageDraft")
        assert [call for method in edits for call in on.server.called(method)] == []


@pytest.mark.parametrize("kind", a_few_of(KINDS, 3))
async def test_stop_takes_the_draft_away(kind: Kind, tmp_path: Path) -> None:
    async with chat(tmp_path, kind) as on, on.gateway():
        on.model.hold(PIECES[1])
        on.model.script(say(*PIECES))
        on.ask()
        await on.sees("It is late.")
        on.ask("/stop")
        await on.sees_nothing_but("Stopped.")
        await on.at_rest()
        assert on.shown == ["Stopped."]


@pytest.mark.parametrize("kind", a_few_of(KINDS, 3))
@pytest.mark.parametrize("config", [WATCHING, AWAY], ids=["watching", "away"])
async def test_what_failed_is_told_in_place_of_the_draft(kind: Kind, config: dict[str, object], tmp_path: Path) -> None:
    async with chat(tmp_path, kind, config=config) as on, on.gateway():
        may_fail = on.model.hold("no such key")
        on.model.script(CLOCK, ModelRefusal(status=401, message="no such key", code="invalid_api_key"))
        question = on.ask()
        await on.sees("Thinking…" if kind in GROUPS else "clock")
        may_fail.set()
        told = await on.sees("OPENAI_API_KEY")
        await on.at_rest()
        assert on.shown == [told]
        if kind in GROUPS:
            await on.server.wait_for(lambda: on.reactions(question) == [FAILED[kind]], seconds=20)


@pytest.mark.parametrize("kind", GROUPS)
async def test_in_a_group_a_slow_answer_is_marked_as_seen_and_no_tool_is_told(kind: Kind, tmp_path: Path) -> None:
    async with chat(tmp_path, kind) as on, on.gateway():
        may_end = on.model.hold("done")
        on.model.script(CLOCK, say("done"))
        question = on.ask()
        await on.server.wait_for(lambda: on.reactions(question) == [SEEN[kind]], seconds=20)
        assert "clock" not in await on.sees("Thinking…")
        may_end.set()
        await on.sees_nothing_but("done")
        await on.server.wait_for(lambda: on.reactions(question) == [], seconds=20)


@pytest.mark.parametrize("kind", a_few_of(KINDS, 3))
async def test_verbose_tells_of_tools_and_what_came_of_them(kind: Kind, tmp_path: Path) -> None:
    async with chat(tmp_path, kind) as on, on.gateway():
        on.ask("/verbose")
        await on.sees("with its result")
        may_end = on.model.hold("done")
        on.model.script(CLOCK, say("done"))
        on.ask()
        told = plain(await on.sees("↳"))
        assert TOLD in told
        assert '"now"' in told.partition("↳")[2]
        may_end.set()
        await on.sees("done")
        await on.at_rest()
        assert len(on.shown) == 2


@pytest.mark.parametrize("kind", a_few_of(KINDS, 3))
async def test_where_streaming_is_off_only_the_answer_is_seen(kind: Kind, tmp_path: Path) -> None:
    config = {"platforms": {kind.partition(" ")[0]: {"streaming": False}}}
    async with chat(tmp_path, kind, config=config) as on, on.gateway():
        may_end = on.model.hold("done")
        on.model.script(say("on the way,", " done"))
        on.ask()
        await on.model.until_asked(1)
        typing = {"telegram": "sendChatAction", "discord": "triggerTyping"}.get(kind.partition(" ")[0])
        if typing:
            await on.server.wait_for(lambda: on.server.called(typing), seconds=20)
        assert on.shown == []
        may_end.set()
        await on.sees_nothing_but("on the way, done")
        assert on.rings() == 1
