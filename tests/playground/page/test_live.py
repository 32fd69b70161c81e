"""What an open page is told, and when."""

from typing import Any

from tests.playground.page.scene import Scene


def texts(news: dict[str, Any]) -> list[str]:
    return ["".join(words["text"] for words in message["words"]) for message in news["messages"]]


async def bot(on: Scene, method: str, **params: Any) -> Any:
    """What the gateway would do on Telegram."""
    server: Any = on.telegram.stage
    async with on.session.post(f"{server.url}/bot{server.token}/{method}", json=params) as answer:
        told = await answer.json()
        assert told["ok"], told
        return told["result"]


async def test_each_phone_is_told_with_its_owner_and_its_places(on: Scene) -> None:
    async with on.live() as told:
        for platform in ("telegram", "discord", "slack"):
            async with on.live() as told:
                news = await told.until_phone(platform, lambda news: True)
            assert [one["name"] for one in news["people"] if one["owner"]] == ["You (owner)"]
            assert news["place"] == "dm"
            assert len(news["places"]) >= 3


async def test_what_is_said_is_shown_and_what_the_bot_says_too(on: Scene) -> None:
    async with on.live() as told:
        await told.until_phone("telegram", lambda news: True)
        on.telegram.say("1001", "dm", "hello")
        await bot(on, "sendMessage", chat_id=1001, text="good day")
        news = await told.until_phone("telegram", lambda news: len(news["messages"]) == 2)
    assert texts(news) == ["hello", "good day"]
    assert [message["mine"] for message in news["messages"]] == [True, False]


async def test_a_page_that_looks_elsewhere_sees_that_at_once(on: Scene) -> None:
    on.telegram.say("1002", "dm", "I am Ada")
    async with on.live() as told:
        await told.look("telegram", "1002")
        news = await told.until_phone("telegram", lambda news: news["person"] == "1002")
    assert texts(news) == ["I am Ada"]


async def test_what_is_no_place_is_the_direct_chat_of_the_owner(on: Scene) -> None:
    async with on.live() as told:
        await told.look("discord", "nobody", "nowhere")
        news = await told.until_phone("discord", lambda news: True)
    assert (news["person"], news["place"]) == (on.discord.owner, "dm")


async def test_a_place_that_somebody_has_not_joined_shows_nothing_of_what_is_said(on: Scene) -> None:
    for platform, ben in (("telegram", "1003"), ("discord", "1200000000000000003"), ("slack", "U0BEN00001")):
        phone = on.on.phones[platform]
        group = next(place.id for place in phone.places(ben) if not place.joined)
        phone.say(phone.owner, group, "among ourselves")
        async with on.live() as told:
            await told.look(platform, ben, group)
            news = await told.until_phone(platform, lambda news, group=group: news["place"] == group)  # type: ignore[misc]
        assert news["messages"] == []


async def test_typing_is_shown_until_the_message_comes(on: Scene) -> None:
    async with on.live() as told:
        await bot(on, "sendChatAction", chat_id=1001, action="typing")
        await told.until_phone("telegram", lambda news: news["typing_until_ms"] > 0)
        await bot(on, "sendMessage", chat_id=1001, text="there")
        news = await told.until_phone("telegram", lambda news: news["messages"])
        assert news["typing_until_ms"] == 0


async def test_a_draft_grows_and_goes_when_the_message_comes(on: Scene) -> None:
    async with on.live() as told:
        await bot(on, "sendMessageDraft", chat_id=1001, draft_id=1, text="The an")
        await told.until_phone("telegram", lambda news: [one["words"]["text"] for one in news["drafts"]] == ["The an"])
        await bot(on, "sendMessageDraft", chat_id=1001, draft_id=1, text="The answer")
        await told.until_phone(
            "telegram", lambda news: [one["words"]["text"] for one in news["drafts"]] == ["The answer"]
        )
        await bot(on, "sendMessage", chat_id=1001, text="The answer is 42")
        news = await told.until_phone("telegram", lambda news: news["messages"])
        assert news["drafts"] == []


async def test_a_button_is_shown_and_pressed(on: Scene) -> None:
    keyboard = {"inline_keyboard": [[{"text": "Again", "callback_data": "again:7"}]]}
    sent = await bot(on, "sendMessage", chat_id=1001, text="Well?", reply_markup=keyboard)
    pressed = {"person": "1001", "place": "dm", "message": str(sent["message_id"]), "button": "again:7"}
    assert on.telegram.messages("1001", "dm")[0].buttons[0][0]["label"] == "Again"
    await on.post("api/phones/telegram/press", pressed)
    update = (await bot(on, "getUpdates"))[-1]
    assert update["callback_query"]["data"] == "again:7"
    await on.post("api/phones/telegram/press", {**pressed, "button": "other"}, status=400)


async def test_a_code_is_told_with_whose_it_is(on: Scene) -> None:
    on.telegram.say("1002", "dm", "hello")
    async with on.live() as told:
        for code in ("ABCD2345", "WXYZ6789"):
            await bot(on, "sendMessage", chat_id=1002, text=f"They run hermes pairing approve telegram {code} now")
            news = await told.until(
                lambda news, code=code: news["type"] == "codes" and [one["code"] for one in news["codes"]] == [code]  # type: ignore[misc]
            )
    assert [(one["platform"], one["name"]) for one in news["codes"]] == [("telegram", "Ada")]


async def test_the_gateways_own_words_are_told(on: Scene) -> None:
    async with on.live() as told:
        news = await told.until(lambda news: news["type"] == "gateway" and "about to serve" in news["log"])
    assert news["pid"] == on.on.gateway.pid


async def test_what_is_no_message_of_a_page_is_passed_over(on: Scene) -> None:
    async with on.session.ws_connect(f"{on.address}live", origin=on.origin) as socket:
        for nonsense in ("not json", "[]", '{"look": "icq"}', '{"look": ["telegram"]}', "5"):
            await socket.send_str(nonsense)
        await socket.send_json({"look": "telegram", "person": "1002", "place": "dm"})
        while True:
            news = await socket.receive_json(timeout=20)
            if news["type"] == "phone" and news["person"] == "1002":
                break
