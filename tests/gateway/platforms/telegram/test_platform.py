"""Hearing Telegram: nothing is confirmed that was not taken, and silence, conflicts and wrong tokens are noticed."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from structlog.testing import capture_logs

from gateway import clock
from gateway.errors import GatewayStopping, PlatformAuthFailed, PlatformUnavailable, StoreUnavailable
from gateway.platforms.base import MenuCommand
from gateway.platforms.telegram import listener
from playground.telegram.server import TelegramServer
from tests.gateway.platforms.telegram.scene import COMMANDS, Gate, bot_of, listening, outbound
from tests.gateway.scene import soon

ADA = 7


@pytest.fixture
async def server() -> AsyncIterator[TelegramServer]:
    async with TelegramServer() as running:
        running.people.make_user("Ada", id=ADA)
        yield running


@pytest.fixture
def gate() -> Gate:
    return Gate()


def confirmed(server: TelegramServer) -> bool:
    return server.world.updates.count == 0


async def ending_of(task: asyncio.Task[None]) -> BaseException:
    await soon(asyncio.wait([task]))
    error = task.exception()
    assert error is not None
    return error


# Taking what comes.


async def test_a_message_is_taken_before_it_is_confirmed(server: TelegramServer, gate: Gate) -> None:
    pending: list[int] = []

    async def look() -> None:
        pending.append(server.world.updates.count)

    async with listening(bot_of(server), gate):
        gate.before_accept = look
        server.people.send_text(ADA, ADA, "hello")
        assert await gate.next_texts(1) == ["hello"]
        await server.wait_for(lambda: confirmed(server))
    assert pending == [1]


async def test_a_page_is_one_call_and_its_cursor_goes_with_it(server: TelegramServer, gate: Gate) -> None:
    for number in range(3):
        server.people.send_text(ADA, ADA, f"{number}")
    next_id = server.world.updates.next_id
    async with listening(bot_of(server), gate):
        await gate.next_texts(3)
    assert [len(page) for page in gate.pages if page] == [3]
    assert gate.cursors["updates"].split()[:2] == ["42", str(next_id)]


@pytest.mark.parametrize("refusal", [StoreUnavailable("the disk is full"), GatewayStopping("stopping")])
async def test_what_could_not_be_taken_stays_with_telegram(
    server: TelegramServer, gate: Gate, monkeypatch: pytest.MonkeyPatch, refusal: Exception
) -> None:
    monkeypatch.setattr(listener, "backoff_seconds", lambda failures: 0.01)
    gate.refuse_with.append(refusal)
    async with listening(bot_of(server), gate) as task:
        server.people.send_text(ADA, ADA, "hello")
        await gate.until(lambda: gate.refused)
        assert not task.done()
        if isinstance(refusal, StoreUnavailable):
            assert await gate.next_texts(1) == ["hello"]
            await server.wait_for(lambda: confirmed(server))
    if isinstance(refusal, GatewayStopping):
        assert not confirmed(server)
        async with listening(bot_of(server), gate):
            assert await gate.next_texts(1) == ["hello"]


async def test_a_restart_goes_on_where_it_was(server: TelegramServer, gate: Gate) -> None:
    async with listening(bot_of(server), gate):
        server.people.send_text(ADA, ADA, "first")
        await gate.next_texts(1)
    server.people.send_text(ADA, ADA, "second")
    async with listening(bot_of(server), gate):
        assert await gate.next_texts(2) == ["first", "second"]


async def test_ids_that_begin_anew_after_silence_are_heard(
    server: TelegramServer, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with listening(bot_of(server), gate):
        server.people.send_text(ADA, ADA, "before")
        await gate.next_texts(1)
        await server.wait_for(lambda: confirmed(server))
        later = clock.now_ms() + 49 * 3600 * 1000
        monkeypatch.setattr(listener, "now_ms", lambda: later)
        server.world.updates.restart_ids(5)
        server.people.send_text(ADA, ADA, "after")
        assert await gate.next_texts(2) == ["before", "after"]
        await server.wait_for(lambda: confirmed(server))
    assert gate.cursors["updates"].split()[1] == "6"


@pytest.mark.parametrize(
    ("stored", "mark", "first"),
    [
        ("", 0, "42"),
        ("42 5 1000", 0, "42"),
        ("43 5 1000", 42, "43"),
        ("43 5 1000 42", 0, "42"),
        ("42 5 1000 44", 42, "44"),
    ],
    ids=["new", "same", "replaced", "back again", "replaced before"],
)
async def test_another_bots_messages_are_not_taken_for_those_of_the_first(
    server: TelegramServer, gate: Gate, stored: str, mark: int, first: str
) -> None:
    gate.cursors["updates"] = stored
    async with listening(bot_of(server), gate):
        for number in range(2):
            server.people.send_text(ADA, ADA, f"{number}")
            await gate.next_texts(number + 1)
    assert [message.edited_ms for message in gate.taken] == [mark, mark]
    assert gate.cursors["updates"].split()[3] == first


async def test_what_was_said_just_before_a_group_moved_goes_along(server: TelegramServer, gate: Gate) -> None:
    group = server.people.make_group("Engines", members=[ADA], bot="administrator")["id"]
    server.people.send_text(group, ADA, "before")
    new = server.people.upgrade(group)
    server.people.send_text(new, ADA, "after")
    with capture_logs() as logs:
        async with listening(bot_of(server), gate):
            assert await gate.next_texts(2) == ["before", "after"]
    assert gate.moves == [(str(group), str(new))]
    assert [message.key.chat for message in gate.taken] == [str(new), str(new)]
    assert len({(message.message_id, message.edited_ms) for message in gate.taken}) == 2
    assert gate.taken[0].edited_ms == group  # numbered anew there: it must not be taken for another
    [told] = [line for line in logs if line["log_level"] == "warning"]
    assert (told["old"], told["new"]) == (str(group), str(new))
    assert "access.allowed_chats" in told["meaning"]


@pytest.mark.parametrize(
    "stored", ["42 999000000 1000", "43 999000000 {now}", "nonsense", "1 2"], ids=["old", "other bot", "bad", "short"]
)
async def test_an_offset_that_means_nothing_is_not_used(server: TelegramServer, gate: Gate, stored: str) -> None:
    gate.cursors["updates"] = stored.format(now=clock.now_ms())
    async with listening(bot_of(server), gate):
        server.people.send_text(ADA, ADA, "hello")
        assert await gate.next_texts(1) == ["hello"]
    assert "offset" not in server.called("getUpdates")[0].params


async def test_an_update_that_comes_twice_in_a_page_is_taken_once(server: TelegramServer, gate: Gate) -> None:
    server.faults.add("duplicate", "message")
    server.people.send_text(ADA, ADA, "hello")
    async with listening(bot_of(server), gate):
        await gate.next_texts(1)
        server.people.send_text(ADA, ADA, "next")
        assert await gate.next_texts(2) == ["hello", "next"]


async def test_an_update_that_cannot_be_read_is_skipped_and_its_words_are_not_logged(
    server: TelegramServer, gate: Gate
) -> None:
    with capture_logs() as logs:
        async with listening(bot_of(server), gate):
            server.world.updates.push("message", {"message_id": "secret words"})
            server.people.send_text(ADA, ADA, "hello")
            assert await gate.next_texts(1) == ["hello"]
            await server.wait_for(lambda: confirmed(server))
    [skipped] = [line for line in logs if line["event"] == "update skipped"]
    assert skipped["log_level"] == "error"
    assert "secret" not in repr(logs)


async def test_everything_we_read_is_asked_for(server: TelegramServer, gate: Gate) -> None:
    group = server.people.make_supergroup("Engines", members=[ADA], bot="administrator", forum=True)["id"]
    async with listening(bot_of(server), gate):
        topic = server.people.make_topic(group, ADA, "Valves")
        said = server.people.send_text(group, ADA, "one", thread=topic)
        server.people.edit_text(group, said["message_id"], "two")
        server.people.react(group, ADA, said["message_id"], "👍")
        server.people.send_album(group, ADA, [{"kind": "photo"}, {"kind": "photo", "caption": "both"}])
        await gate.next_texts(5)
    kinds = [(message.kind, message.key.thread) for message in gate.taken]
    assert kinds == [
        ("message", str(topic)), ("edit", str(topic)), ("reaction", ""), ("message", ""), ("message", ""),
    ]  # fmt: skip
    assert [message.more_follows for message in gate.taken] == [False, False, False, True, True]


async def test_a_pressed_button_is_answered_once_it_is_taken(server: TelegramServer, gate: Gate) -> None:
    platform = bot_of(server)
    answered: list[int] = []

    async def look() -> None:
        answered.append(len(server.called("answerCallbackQuery")))

    async with listening(platform, gate):
        receipt = await platform.send(outbound("sure?", chat=ADA, choices=["Yes", "No"]))
        gate.before_accept = look
        await server.people.press_and_wait(ADA, ADA, int(receipt.message_id), text="Yes")
        await gate.next_texts(1)
    assert answered == [0]
    [press] = gate.taken
    assert (press.kind, press.text, press.about) == ("button", "do:Yes", receipt.message_id)


async def test_a_button_that_cannot_be_answered_holds_up_nothing(server: TelegramServer, gate: Gate) -> None:
    server.faults.add("hang", "answerCallbackQuery")
    platform = bot_of(server)
    async with listening(platform, gate):
        server.world.updates.push(
            "callback_query",
            {
                "id": "5",
                "from": server.world.users[ADA].wire,
                "chat_instance": "1",
                "data": "x",
                "message": {"message_id": 1, "date": 0, "chat": server.world.chats[ADA].wire},
            },
        )
        await gate.next_texts(1)
        server.people.send_text(ADA, ADA, "hello")
        assert await gate.next_texts(2) == ["x", "hello"]


async def test_a_group_that_moves_is_told_before_what_is_said_there(server: TelegramServer, gate: Gate) -> None:
    group = server.people.make_group("Old", members=[ADA], bot="administrator")["id"]
    new = server.people.upgrade(group)
    server.people.send_text(new, ADA, "hi", deliver=True)
    at_accept: list[int] = []

    async def look() -> None:
        at_accept.append(len(gate.moves))

    gate.before_accept = look
    async with listening(bot_of(server), gate):
        await gate.next_texts(1)
    assert gate.moves == [(str(group), str(new))]
    assert at_accept == [0, 1]  # the first is the bot's name


async def test_a_user_who_comes_back_can_be_reached(server: TelegramServer, gate: Gate) -> None:
    async with listening(bot_of(server), gate):
        server.people.block(ADA)
        server.people.block(ADA, undo=True)
        await gate.until(lambda: gate.reached)
    assert gate.reached == [str(ADA)]
    assert gate.taken == []


# Getting in.


async def test_it_says_who_it_is_and_remembers_it(server: TelegramServer, gate: Gate) -> None:
    platform = bot_of(server)
    with capture_logs() as logs:
        for _ in range(2):
            async with listening(platform, gate):
                assert gate.cursors["username"] == "playground_bot"
    events = [line["event"] for line in logs]
    assert events.count("signed in") == 1
    assert len([event for event in events if event.startswith("privacy mode")]) == 1
    assert gate.pages == [[]]  # the name is stored once
    assert [command["command"] for command in server.world.commands] == ["help", "stop"]
    assert len(server.called("setMyCommands")) == 1


async def test_a_menu_that_cannot_be_set_is_only_logged(server: TelegramServer, gate: Gate) -> None:
    server.faults.add("fail", "setMyCommands")
    with capture_logs() as logs:
        async with listening(bot_of(server, commands=(*COMMANDS, MenuCommand("Not-One", "x"))), gate):
            server.people.send_text(ADA, ADA, "hello")
            await gate.next_texts(1)
    assert "command menu not set" in [line["event"] for line in logs]


async def test_the_first_poll_does_not_wait(server: TelegramServer, gate: Gate) -> None:
    async with listening(bot_of(server, poll_seconds=50), gate):
        assert gate.heard == 1


@pytest.mark.parametrize("token", ["42:other-token", "nonsense", "", "42:a b/c"])
@pytest.mark.parametrize(
    ("account", "variable"), [("telegram", "TELEGRAM_BOT_TOKEN"), ("telegram@work", "TELEGRAM_BOT_TOKEN_WORK")]
)
async def test_a_wrong_token_names_the_variable(
    server: TelegramServer, gate: Gate, token: str, account: str, variable: str
) -> None:
    with pytest.raises(PlatformAuthFailed, match=rf"{variable}\b") as caught:
        await soon(bot_of(server, token=token, account=account).run(gate.inlet()))
    assert "other-token" not in str(caught.value)
    assert gate.heard == 0


async def test_a_token_that_is_revoked_meanwhile_is_noticed(server: TelegramServer, gate: Gate) -> None:
    async with listening(bot_of(server, poll_seconds=1), gate) as task:
        server.token = "42:another"
        assert isinstance(await ending_of(task), PlatformAuthFailed)


@pytest.mark.parametrize("status", [401, 404])
async def test_one_odd_refusal_of_a_token_that_was_good_is_an_outage(
    server: TelegramServer, gate: Gate, status: int
) -> None:
    async with listening(bot_of(server, poll_seconds=1), gate) as task:
        server.faults.add("fail", "getUpdates", status=status)
        error = await ending_of(task)
    assert isinstance(error, PlatformUnavailable)
    assert "for a moment" in str(error)


async def test_a_server_that_was_there_and_knows_no_bot_is_tried_again(server: TelegramServer, gate: Gate) -> None:
    platform = bot_of(server)
    async with listening(platform, gate):
        pass
    server.faults.add("fail", "getMe", status=404)
    with pytest.raises(PlatformUnavailable):
        await soon(platform.run(gate.inlet()))


async def test_a_webhook_left_behind_is_removed_and_nothing_is_lost(server: TelegramServer, gate: Gate) -> None:
    server.people.send_text(ADA, ADA, "while it was there")
    server.world.updates.set_webhook("https://elsewhere.example/hook")
    with capture_logs() as logs:
        async with listening(bot_of(server), gate):
            assert await gate.next_texts(1) == ["while it was there"]
    assert any(line["event"].startswith("webhook removed") for line in logs)


async def test_a_webhook_set_meanwhile_is_removed_once(server: TelegramServer, gate: Gate) -> None:
    async with listening(bot_of(server, poll_seconds=1), gate) as task:
        server.world.updates.webhook_url = "https://elsewhere.example/hook"
        await server.wait_for(lambda: server.called("deleteWebhook"))
        server.people.send_text(ADA, ADA, "hello")
        assert await gate.next_texts(1) == ["hello"]
        server.faults.add("fail", "deleteWebhook", status=400)  # and set again at once
        server.world.updates.webhook_url = "https://elsewhere.example/hook"
        assert isinstance(await ending_of(task), PlatformUnavailable)


# Losing touch.


async def test_another_program_with_the_same_token_is_explained(server: TelegramServer, gate: Gate) -> None:
    async with listening(bot_of(server), gate) as task:
        await server.wait_for(lambda: server.world.updates.polling)
        server.world.updates.end_poll("Conflict: terminated by other getUpdates request")
        error = await ending_of(task)
    assert isinstance(error, PlatformUnavailable)
    assert error.retry_after == 15
    assert "another program receives this bot's messages" in str(error)
    assert "TELEGRAM_BOT_TOKEN" in str(error)


async def test_a_line_that_is_dead_is_noticed_and_closed(
    server: TelegramServer, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "_DEAD_AFTER_SECONDS", 0.2)
    async with listening(bot_of(server, poll_seconds=1), gate) as task:
        heard = gate.heard
        server.half_open()
        error = await ending_of(task)
        assert isinstance(error, PlatformUnavailable)
        assert "dead" in str(error)
        assert gate.heard == heard
    await server.resume()
    async with listening(bot_of(server), gate):
        server.people.send_text(ADA, ADA, "hello")
        assert await gate.next_texts(1) == ["hello"]


@pytest.mark.parametrize("method", ["getMe", "getUpdates"])
@pytest.mark.parametrize("kind", ["fail", "cut", "garbage"])
async def test_whatever_else_fails_is_tried_again(server: TelegramServer, gate: Gate, method: str, kind: str) -> None:
    server.faults.add(kind, method)  # type: ignore[arg-type]
    with pytest.raises(PlatformUnavailable) as caught:
        await soon(bot_of(server).run(gate.inlet()))
    assert caught.value.retry_after is None
    assert gate.heard == 0


async def test_a_wish_to_wait_is_handed_on(server: TelegramServer, gate: Gate) -> None:
    server.faults.add("fail", "getUpdates", retry_after=13)
    with pytest.raises(PlatformUnavailable) as caught:
        await soon(bot_of(server).run(gate.inlet()))
    assert caught.value.retry_after == 13


async def test_a_poll_that_answers_something_else_is_no_poll(server: TelegramServer, gate: Gate) -> None:
    server.faults.add("garbage", "getUpdates", status=200, body='{"ok": true, "result": [{"update_id": "x"}]}')
    with pytest.raises(PlatformUnavailable, match="other than updates"):
        await soon(bot_of(server).run(gate.inlet()))


async def test_a_server_that_is_down_is_tried_again(server: TelegramServer, gate: Gate) -> None:
    async with listening(bot_of(server), gate) as task:
        await server.pause()
        assert isinstance(await ending_of(task), PlatformUnavailable)
    with pytest.raises(PlatformUnavailable, match="refused"):
        await soon(bot_of(server).run(gate.inlet()))


async def test_a_store_that_cannot_be_read_at_the_start_is_tried_again(server: TelegramServer, gate: Gate) -> None:
    async def look() -> None:
        raise StoreUnavailable("the disk is full")

    gate.before_accept = look
    with pytest.raises(PlatformUnavailable, match="the disk is full"):
        await soon(bot_of(server).run(gate.inlet()))


async def test_a_server_that_answers_with_something_else_is_tried_again_and_ends_nothing(
    server: TelegramServer,
) -> None:
    server.faults.add("garbage", "getMe", status=200, body='{"ok": true, "result": [1]}')
    platform = bot_of(server)
    with pytest.raises(PlatformUnavailable, match="malformed answer"):
        await soon(platform.run(Gate().inlet()))


ODD = [
    (200, '{"ok": false, "x": {"result": 1}}'),
    (400, '{"ok": false, "parameters": [1]}'),
    (400, '{"ok": false, "description": 5}'),
]


@pytest.mark.parametrize("method", ["getMe", "deleteWebhook", "getUpdates"])
@pytest.mark.parametrize(("status", "body"), ODD)
async def test_an_answer_of_an_odd_shape_is_an_outage(
    server: TelegramServer, gate: Gate, method: str, status: int, body: str
) -> None:
    server.world.updates.set_webhook("https://elsewhere.example/hook")
    server.faults.add("garbage", method, status=status, body=body)
    with pytest.raises(PlatformUnavailable, match="Telegram"):
        await soon(bot_of(server).run(gate.inlet()))


@pytest.mark.parametrize(("status", "body"), ODD)
async def test_an_odd_answer_to_a_menu_or_a_press_ends_nothing(
    server: TelegramServer, gate: Gate, status: int, body: str
) -> None:
    server.faults.add("garbage", "setMyCommands", status=status, body=body)
    server.faults.add("garbage", "answerCallbackQuery", status=status, body=body)
    platform = bot_of(server)
    async with listening(platform, gate) as task:
        receipt = await platform.send(outbound("sure?", choices=("yes",)))
        server.people.press(ADA, ADA, int(receipt.message_id), data="do:yes")
        await server.wait_for(lambda: server.called("answerCallbackQuery") and server.called("setMyCommands"))
        server.people.send_text(ADA, ADA, "hello")
        await gate.next_texts(2)
        assert not task.done()


@pytest.mark.parametrize("user", ['{"id": "x"', '{"id": 42, "username": [1]'])
async def test_a_bot_without_a_number_or_a_name_is_none(server: TelegramServer, gate: Gate, user: str) -> None:
    body = f'{{"ok": true, "result": {user}, "is_bot": true, "first_name": "x"}}}}'
    server.faults.add("garbage", "getMe", status=200, body=body)
    with pytest.raises(PlatformUnavailable, match="malformed answer"):
        await soon(bot_of(server).run(gate.inlet()))
