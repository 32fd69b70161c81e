"""What Slack tells us, as our messages: whose, where, said to whom, and what is worth telling."""

from typing import Any

import pytest

from gateway.messages import InboundMessage, Media, Part, Quote, Sender, Text
from gateway.platforms.slack.parsing import (
    EventContext,
    SlackIdentity,
    SlackPlace,
    add_opening,
    find_channel,
    find_people,
    parse_command,
    parse_event,
    parse_press,
    ts_to_ms,
)

ME = SlackIdentity(account="slack", user="UBOT", bot="BBOT", team="T1")
NAMES = {"UADA": "Ada", "UBOB": "Bob"}
DM = SlackPlace(id="D1", kind="dm")
CHANNEL = SlackPlace(id="C1", kind="channel", name="general")
GROUP = SlackPlace(id="G1", kind="group", name="mpdm-ada--bob-1")
TS = "1700000000.123456"
EVENT_TS = "1700000060.000300"


def said(text: str = "hello", **fields: Any) -> dict[str, Any]:
    return {"type": "message", "user": "UADA", "text": text, "ts": TS, "event_ts": TS, **fields}


def read(event: dict[str, Any], place: SlackPlace = DM, **known: Any) -> InboundMessage | None:
    return parse_event(event, ME, EventContext(place=place, names=NAMES, **known))


def must(event: dict[str, Any], place: SlackPlace = DM, **known: Any) -> InboundMessage:
    message = read(event, place, **known)
    assert message is not None
    return message


def parts(text: str = "", **fields: Any) -> tuple[Part, ...]:
    return must(said(text, **fields)).parts


def test_a_message_is_known_by_its_ts_and_ordered_by_it() -> None:
    message = must(said())
    assert (message.kind, message.message_id, message.sent_ms) == ("message", TS, 1700000000123)
    assert message.sender == Sender(id="UADA", name="Ada")
    assert ts_to_ms("1700000000.5") == 1700000000500


@pytest.mark.parametrize(
    ("place", "fields", "key"),
    [
        (DM, {}, "slack:dm:D1"),
        (DM, {"thread_ts": "1.1"}, "slack:dm:D1:1.1"),
        (CHANNEL, {}, f"slack:channel:C1:{TS}"),
        (CHANNEL, {"thread_ts": "1.1"}, "slack:channel:C1:1.1"),
        (CHANNEL, {"thread_ts": TS}, f"slack:channel:C1:{TS}"),
        (GROUP, {}, "slack:group:G1"),
        (GROUP, {"thread_ts": "1.1"}, "slack:group:G1:1.1"),
    ],
)
def test_which_conversation(place: SlackPlace, fields: dict[str, Any], key: str) -> None:
    assert str(must(said(**fields), place).key) == key


def test_a_second_bot_has_sessions_of_its_own() -> None:
    message = parse_event(
        said(), SlackIdentity(account="slack@work", user="U", bot="B"), EventContext(place=DM, names={})
    )
    assert message is not None
    assert str(message.key) == "slack@work:dm:D1"


@pytest.mark.parametrize(
    ("place", "event", "known", "addressed"),
    [
        (DM, said(), {}, True),
        (CHANNEL, said(), {}, False),
        (CHANNEL, said("hey <@UBOT>, look"), {}, True),
        (CHANNEL, said("hey <@UBOT|hermes>"), {}, True),
        (CHANNEL, said("hey <@UBOB>"), {}, False),
        (CHANNEL, said("x", type="app_mention"), {}, True),
        (CHANNEL, said(thread_ts="1.1"), {}, False),
        (CHANNEL, said(thread_ts="1.1"), {"our_threads": {"1.1"}}, True),
        (CHANNEL, said(thread_ts="1.1", parent_user_id="UBOT"), {}, True),
        (CHANNEL, said(), {"our_threads": {TS}}, False),
        (CHANNEL, said(thread_ts=TS), {"our_threads": {TS}}, False),  # as the history shows what opened a thread
        (CHANNEL, said(thread_ts="1.1", bot_id="B2"), {"our_threads": {"1.1"}}, False),
        (CHANNEL, said("<@UBOT> hi", bot_id="B2"), {}, True),
        (GROUP, said(), {}, False),
        (GROUP, said("<@UBOT>!"), {}, True),
    ],
)
def test_what_is_said_to_us(place: SlackPlace, event: dict[str, Any], known: dict[str, Any], addressed: bool) -> None:
    assert must(event, place, **known).addressed is addressed


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a &lt;b&gt; &amp;amp; c", "a <b> &amp; c"),
        ("hi <@UBOB> and <@UXXX|eve> and <@UYYY>", "hi @Bob and @eve and @UYYY"),
        ("see <#C2|random> or <#C3>", "see #random or #C3"),
        ("<!here> <!channel> <!subteam^S1|@team> <!date^1^{date}|today>", "@here @channel @team today"),
        ("<https://a.example/x?a=1&amp;b=2>", "https://a.example/x?a=1&b=2"),
        ("<https://a.example|the page>", "the page (https://a.example)"),
        ("<http://a.example|a.example> <mailto:a@b.c|a@b.c>", "a.example a@b.c"),
        ("<@UBOT> /help me", "/help me"),
        ("  <@UBOT>: hello", "hello"),
        ("tell <@UBOT> that", "tell @UBOT that"),
        ("half \ud83d pair", "half � pair"),
    ],
)
def test_words_are_shown_as_people_read_them(text: str, shown: str) -> None:
    assert parts(text) == (Text(text=shown),)


@pytest.mark.parametrize(
    ("file", "part"),
    [
        (
            {"id": "F1", "name": "a b.txt", "mimetype": "text/plain", "size": 5, "url_private": "https://f/1"},
            Media(kind="file", name="a b.txt", mime="text/plain", size_bytes=5, reference="https://f/1"),
        ),
        (
            {"id": "F1", "title": "x", "mimetype": "image/png", "url_private": "https://f/1"},
            Media(kind="image", name="x", mime="image/png", reference="https://f/1"),
        ),
        ({"id": "F1", "file_access": "check_file_info"}, Media(kind="file", name="file", reference="id:F1")),
        ({"id": "F1", "mode": "tombstone"}, Text(text="[a deleted file]")),
        (
            {"id": "F1", "name": "plan", "is_external": True, "url_private": "https://drive.example/1"},
            Text(text="[file plan https://drive.example/1]"),
        ),
    ],
)
def test_files_are_named_not_fetched(file: dict[str, Any], part: Part) -> None:
    assert parts("see", subtype="file_share", files=[file]) == (Text(text="see"), part)


@pytest.mark.parametrize(("user", "is_voice"), [("UADA", True), ("UBOB", False)])
def test_a_clip_of_the_sender_is_what_they_say(user: str, is_voice: bool) -> None:
    clip = {
        "id": "F1",
        "name": "c.mp4",
        "mimetype": "audio/mp4",
        "subtype": "slack_audio",
        "url_private": "https://f/1",
    }
    [part] = parts("", subtype="file_share", files=[clip | {"user": user}])
    assert isinstance(part, Media)
    assert part.is_voice == is_voice


@pytest.mark.parametrize("mark", ["is_share", "is_msg_unfurl"])
def test_a_shared_message_is_a_quote(mark: str) -> None:
    shared = {mark: True, "author_name": "Bob", "text": "do &amp; die"}
    assert parts("look", attachments=[shared]) == (
        Quote(how="forwarded from", author="Bob", text="do & die"), Text(text="look"),
    )  # fmt: skip


def test_an_alarm_that_is_all_attachment_is_read() -> None:
    [part] = parts("", bot_id="B2", subtype="bot_message", attachments=[{"title": "Disk full", "text": "on <@UBOB>"}])
    assert part == Text(text="Disk full\non @Bob")


@pytest.mark.parametrize(
    ("fields", "sender"),
    [
        ({"bot_id": "B2", "user": "U2", "bot_profile": {"name": "Jira"}}, Sender(id="U2", name="Jira", is_bot=True)),
        (
            {"bot_id": "B2", "user": None, "username": "Work\nflow", "subtype": "bot_message"},
            Sender(id="B2", name="Work flow", is_bot=True),
        ),
    ],
)
def test_other_bots_are_bots(fields: dict[str, Any], sender: Sender) -> None:
    assert must(said(**fields)).sender == sender


@pytest.mark.parametrize(
    "event",
    [
        said(user="UBOT"),
        said(user=None, bot_id="BBOT", subtype="bot_message"),
        said(subtype="channel_join"),
        said(subtype="message_replied"),
        said(subtype="tombstone"),
        said(""),
        {"type": "app_home_opened", "channel": "D1"},
        {"type": "message", "subtype": "message_changed", "message": said("a", user="UBOT"), "event_ts": EVENT_TS},
        {"type": "reaction_added", "user": "UBOT", "item": {"type": "message", "ts": TS}, "event_ts": EVENT_TS},
        {"type": "reaction_added", "user": "UADA", "item": {"type": "file"}, "event_ts": EVENT_TS},
    ],
)
def test_what_is_not_for_us(event: dict[str, Any]) -> None:
    assert read(event) is None


def changed(now: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    fields = {"message": now, "previous_message": before, "event_ts": EVENT_TS, "hidden": True}
    return {"type": "message", "subtype": "message_changed", "ts": EVENT_TS, "channel": "C1", **fields}


def test_an_edit_bears_the_id_of_what_was_edited_and_its_own_time() -> None:
    edited = {"user": "UADA", "ts": "1700000060.000000"}
    message = must(changed(said("two", edited=edited), said("one")), CHANNEL)
    assert (message.kind, message.message_id, message.text) == ("edit", TS, "two")
    assert (message.edited_ms, str(message.key)) == (1700000060000, f"slack:channel:C1:{TS}")


def test_a_preview_that_slack_adds_is_no_edit() -> None:
    assert read(changed(said("one", attachments=[{"title": "preview"}]), said("one"))) is None
    assert read(changed(said("one", files=[]), said("one", files=[{"id": "F1"}]))) is not None


@pytest.mark.parametrize(
    "event",
    [
        {
            "type": "message",
            "subtype": "message_deleted",
            "deleted_ts": TS,
            "previous_message": said("gone", thread_ts="1.1"),
            "event_ts": EVENT_TS,
            "hidden": True,
        },
        changed(
            {"subtype": "tombstone", "ts": TS, "user": "USLACKBOT", "text": "This message was deleted."},
            said("gone", thread_ts="1.1"),
        ),
    ],
    ids=["deleted", "tombstone"],
)
def test_a_deletion_counts_as_its_authors(event: dict[str, Any]) -> None:
    message = must(event, CHANNEL)
    assert (message.kind, message.message_id, message.sender.id) == ("deletion", TS, "UADA")
    assert (message.parts, message.edited_ms, message.key.thread) == ((), 1700000060000, "1.1")


@pytest.mark.parametrize(
    ("kind", "place", "thread", "text", "key"),
    [
        ("reaction_added", DM, "", ":+1:", "slack:dm:D1"),
        ("reaction_removed", DM, "", "removed :+1:", "slack:dm:D1"),
        ("reaction_added", CHANNEL, "", ":+1:", f"slack:channel:C1:{TS}"),
        ("reaction_added", CHANNEL, "1.1", ":+1:", "slack:channel:C1:1.1"),
    ],
)
def test_reactions(kind: str, place: SlackPlace, thread: str, text: str, key: str) -> None:
    item = {"type": "message", "channel": place.id, "ts": TS}
    event = {"type": kind, "user": "UADA", "reaction": "+1", "item": item, "event_ts": EVENT_TS}
    message = must(event, place, thread=thread)
    assert (message.kind, message.text, message.about, str(message.key)) == ("reaction", text, TS, key)
    assert message.addressed == (place is DM)
    assert message.message_id == f"{TS}:UADA:{EVENT_TS}"
    assert find_channel(event) == place.id


@pytest.mark.parametrize(
    ("place", "container", "key"),
    [
        (DM, {}, "slack:dm:D1"),
        (CHANNEL, {}, f"slack:channel:C1:{TS}"),
        (CHANNEL, {"thread_ts": "1.1"}, "slack:channel:C1:1.1"),
    ],
)
def test_a_press_says_which_button(place: SlackPlace, container: dict[str, Any], key: str) -> None:
    body = {
        "type": "block_actions",
        "user": {"id": "UADA", "name": "ada"},
        "container": {"message_ts": TS, **container},
        "actions": [{"action_id": "do:yes", "value": "do:yes", "action_ts": EVENT_TS}],
    }
    message = parse_press(body, ME, EventContext(place=place, names={}))
    assert message is not None
    assert (message.kind, message.text, message.about, str(message.key)) == ("button", "do:yes", TS, key)
    assert message.sender == Sender(id="UADA", name="ada")


@pytest.mark.parametrize(
    ("command", "text", "said"),
    [
        ("/hermes", "help", "/help"),
        ("/hermes", "STOP all", "/STOP all"),
        ("/hermes", "/help", "/help"),
        ("/hermes", "", "/help"),
        ("/hermes", "what is new?", "what is new?"),
        ("/stop", "all", "/stop all"),
    ],
)
def test_slash_commands(command: str, text: str, said: str) -> None:
    body = {"command": command, "text": text, "user_id": "UADA", "trigger_id": "1.2.x", "channel_id": "C1"}
    known = EventContext(place=CHANNEL, names=NAMES)
    message = parse_command(body, ME, known, umbrella="/hermes", commands={"help", "stop"}, at_ms=7)
    assert message is not None
    assert (message.kind, message.text, message.message_id, message.sent_ms) == ("message", said, "1.2.x", 7)
    assert (str(message.key), message.addressed) == ("slack:channel:C1", True)


def test_what_opened_a_thread_is_quoted() -> None:
    message = add_opening(must(said("sum up")), {"user": "UBOB", "text": "a &amp; b"}, NAMES)
    assert message.parts == (Quote(author="Bob", text="a & b"), Text(text="sum up"))
    assert message.said == "sum up"
    assert add_opening(message, {}, NAMES) is message


def test_whose_names_are_needed() -> None:
    assert find_people(said("<@UBOB>", attachments=[{"text": "<@UEVE>"}])) == {"UADA", "UBOB", "UEVE"}
