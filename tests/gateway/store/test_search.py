"""Search: ranking, syntax, filters, neighbours, and who may find what; no query is an error."""

import sqlite3
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_core.conversation import Message, Role
from gateway.messages import Sender, SessionKey, Text
from gateway.store import sessions, transcripts
from gateway.store.db.connection import Transaction
from gateway.store.people import OWNER
from gateway.store.search import EVERYTHING, OWNER_READS, Filter, FoundMessage, Reader, reader_in, search
from gateway.store.search_index import index_is_damaged, rebuild_index, searchable
from gateway.store.web_chats import find_chats
from tests.gateway.store.chat_log import write_log
from tests.gateway.store.conftest import Clock
from tests.gateway.store.exchange import exchange
from tests.gateway.store.rows import find_hits

TEXTS = {
    "deploy": "The deploy to production failed because the disk was full",
    "disk": "disk disk disk",
    "café": "Meet me at the café in Zürich",
    "japan": "明日は東京で会議があります。資料を準備してください",
    "kana": "コーヒーとケーキをたのむ",
    "korea": "내일 회의가 있습니다",
    "china": "我们在北京大学学习中文",
    "mixed": "Pythonで書いたbotを再起動して",
    "code": "error E1234 in foo_bar.py: don't use C++ or node.js, mail ann@example.com",
    "near": "alpha beta gamma delta",
}


def say(tx: Transaction, text: str, *, role: Role = "user", key: SessionKey | None = None) -> None:
    key = key or SessionKey(platform="telegram", kind="dm", chat="1")
    session = sessions.open_current(tx, key, display_name="Ann")
    transcripts.append(tx, session.id, Message(role=role, parts=(Text(text=text),)))


@pytest.fixture
def said(tx: Transaction) -> Transaction:
    for name, text in TEXTS.items():
        say(tx, text, key=SessionKey(platform="telegram", kind="dm", chat=name))
    return tx


def names(hits: list[FoundMessage]) -> list[str]:
    """Which of the texts were found: their excerpts are short enough to be whole."""
    return [next(name for name, text in TEXTS.items() if text == hit.excerpt) for hit in hits]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("deploy", ["deploy"]),
        ("DEPLOY", ["deploy"]),
        ("disk", ["disk", "deploy"]),  # the one that is all about it first
        ("deploy disk", ["deploy", "disk"]),  # the one with all words first
        ("deploying disks", ["deploy", "disk"]),
        ("Why did the deployment to production fail?", ["deploy"]),
        ("What did we pay for the deploy?", ["deploy"]),
        ("who met me in zurich", ["café"]),
        ("deploy AND disk", ["deploy"]),
        ("deploy OR alpha", ["near", "deploy"]),
        ("disk NOT deploy", ["disk"]),
        ("(deploy OR alpha) NOT beta", ["deploy"]),
        ("prod*", ["deploy"]),
        ("prod", []),
        ('"disk was full"', ["deploy"]),
        ('"full disk"', []),
        ('"disk was fu"*', ["deploy"]),
        ("NEAR(alpha gamma, 2)", ["near"]),
        ("NEAR(alpha delta, 1)", []),
        ("^alpha", ["near"]),
        ("^beta", []),
        ("alpha + beta", ["near"]),
        ("search_text : alpha", ["near"]),
        ("cafe", ["café"]),
        ("ZURICH", ["café"]),
        ("東京", ["japan"]),
        ("会議", ["japan"]),
        ("京東", []),
        ("東京 会議", ["japan"]),
        ("東京 大学", ["china", "japan"]),
        ("東京 AND 北京", []),
        ("東京 OR 北京", ["china", "japan"]),
        ("東京 NOT 会議", []),
        ("東*", ["japan"]),
        ('"東京で"', ["japan"]),
        ("資料を準備", ["japan"]),
        ("ケーキ", ["kana"]),
        ("コーヒー", ["kana"]),
        ("たの", ["kana"]),
        ("회의", ["korea"]),
        ("내일 회의", ["korea"]),
        ("北京", ["china"]),
        ("学学", ["china"]),
        ("再起", ["mixed"]),
        ("Python", ["mixed"]),
        ("bot", ["mixed"]),
        ("Python 再起動", ["mixed"]),
        ("Pythonで書いた", ["mixed"]),
        ("botを", ["mixed", "kana", "japan"]),
        ("E1234", ["code"]),
        ("nothing like that", []),
    ],
)
def test_what_is_found_and_in_which_order(said: Transaction, query: str, found: list[str]) -> None:
    hits = names(find_hits(said, query))
    assert hits == found if "OR" not in query else sorted(hits) == sorted(found)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ('"disk was full', ["deploy", "disk"]),
        ('disk "', ["disk", "deploy"]),
        ("deploy)", ["deploy"]),
        ("(deploy", ["deploy"]),
        ("deploy AND", ["deploy"]),
        ("AND deploy", ["deploy"]),
        ("deploy OR", ["deploy"]),
        ("NOT deploy", ["deploy"]),
        ("don't", ["code"]),
        ("C++", ["code"]),
        ("node.js", ["code"]),
        ("foo_bar.py", ["code"]),
        ("ann@example.com", ["code"]),
        ("disk: full", ["deploy", "disk"]),
        ("nowhere : disk", ["disk", "deploy"]),
        ("*", []),
        ("*disk", ["disk", "deploy"]),
        ("disk **", ["disk", "deploy"]),
        ("disk,full", ["deploy", "disk"]),
        ("disk; DROP TABLE messages", ["disk", "deploy"]),
        ("disk -full", ["deploy", "disk"]),
        ("-disk", ["disk", "deploy"]),
        ("NEAR(alpha", ["near"]),
        ("NEAR(alpha gamma, x)", ["near"]),
        ("{alpha beta} : gamma", ["near"]),
        ("^", []),
        ("alpha +", ["near"]),
        ("'", []),
        ('"', []),
        ('""', []),
        ("", []),
        ("   ", []),
        ("\0", []),
        ("disk\0", ["disk", "deploy"]),
        ("(((((", []),
        ("！？。", []),
        ("東京(", ["japan"]),
        ("「東京」", ["japan"]),
        ("東京!会議?", ["japan"]),
        ("\udcff disk", ["disk", "deploy"]),
        ("disk 😀", ["disk", "deploy"]),
        ("%s %d", []),
    ],
)
def test_what_is_no_syntax_is_searched_as_plain_words(said: Transaction, query: str, found: list[str]) -> None:
    assert names(find_hits(said, query)) == found


@pytest.mark.parametrize(
    "query",
    ["disk " * 20_000, "disk OR " * 3_000 + "disk", "(" * 5_000 + "disk" + ")" * 5_000, "a" * 1_000_000, "東" * 20_000],
    ids=["many words", "many ors", "deep", "one long word", "long cjk"],
)
def test_a_monstrous_query_is_no_error(said: Transaction, query: str) -> None:
    """Nor does it take minutes, as the first of these would if FTS5 were handed all of it."""
    find_hits(said, query)


@settings(max_examples=300)
@given(st.text(alphabet=st.sampled_from("aдé東かア한\"*()^+-:,.{}'\0 ANDORTE\ud800") | st.characters(), max_size=30))
def test_no_query_whatever_is_an_error(said: Transaction, query: str) -> None:
    find_hits(said, query)


@settings(max_examples=200)
@given(st.text(alphabet="東京会議かなカナ한글々abc ", min_size=1, max_size=20), st.data())
def test_any_two_cjk_neighbours_are_found(tx: Transaction, text: str, data: st.DataObject) -> None:
    pairs = [
        text[at : at + 2] for at in range(len(text) - 1) if all(c in "東京会議かなカナ한글" for c in text[at : at + 2])
    ]
    if pairs:
        tx.execute("SAVEPOINT example")
        say(tx, text)
        assert find_hits(tx, data.draw(st.sampled_from(pairs)))
        tx.execute("ROLLBACK TO example")


@dataclass(frozen=True)
class Said:
    platform: str
    role: Role
    at_ms: int


SAID = [Said("telegram", "user", 1_000), Said("telegram", "assistant", 2_000), Said("discord", "user", 3_000)]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (Filter(), SAID),
        (Filter(platform="telegram"), SAID[:2]),
        (Filter(platform="slack"), []),
        (Filter(role="user"), [SAID[0], SAID[2]]),
        (Filter(platform="telegram", role="assistant"), [SAID[1]]),
        (Filter(role="tool"), []),
        (Filter(since_ms=2_000), SAID[1:]),
        (Filter(until_ms=2_000), SAID[:2]),
        (Filter(since_ms=2_000, until_ms=2_000), [SAID[1]]),
        (Filter(since_ms=2_001, until_ms=2_999), []),
    ],
)
def test_filters(tx: Transaction, clock: Clock, where: Filter, expected: list[Said]) -> None:
    for one in SAID:
        clock.ms = one.at_ms
        say(tx, "needle", role=one.role, key=SessionKey(platform=one.platform, kind="dm", chat="1"))
    hits = find_hits(tx, "needle", where=where)
    assert sorted((hit.platform, hit.role, hit.created_ms) for hit in hits) == sorted(
        (one.platform, one.role, one.at_ms) for one in expected
    )


def test_filters_hold_also_for_plain_words(tx: Transaction) -> None:
    say(tx, "it's a needle")
    assert find_hits(tx, "it's", where=Filter(platform="discord")) == []
    assert len(find_hits(tx, "it's", where=Filter(platform="telegram"))) == 1


def test_a_limit_keeps_the_best(said: Transaction) -> None:
    assert names(find_hits(said, "disk deploy", limit=1))[:1] == ["deploy"]


def test_a_hit_says_where_it_is(tx: Transaction, clock: Clock) -> None:
    say(tx, "needle", key=SessionKey(platform="slack", kind="channel", chat="C1", thread="1.2"))
    [hit] = find_hits(tx, "needle")
    session = sessions.find_current(tx, "slack:channel:C1:1.2")
    assert session is not None
    assert hit == FoundMessage(
        session_id=session.id,
        session_key="slack:channel:C1:1.2",
        platform="slack",
        display_name="Ann",
        role="user",
        text="needle",
        excerpt="needle",
        created_ms=clock.ms,
        is_hit=True,
    )


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("明日は、東京で会議です。\n場所は 本社（3階）です。", "東京"),
        ("Pythonで書いたbot、再起動！", "再起動"),
        ("佐々木さんの「報告」", "報告"),
        ("한국어 문장, 그리고 English.", "문장"),
        ("plain words, as they are:  two  spaces", "words"),
    ],
)
def test_an_excerpt_of_a_short_text_is_the_text(tx: Transaction, text: str, query: str) -> None:
    say(tx, text)
    [hit] = find_hits(tx, query)
    assert hit.excerpt == text


def test_an_excerpt_of_a_long_text_shows_the_place(tx: Transaction) -> None:
    say(tx, "before " * 100 + "the needle is here " + "after " * 100)
    say(tx, "前" * 200 + "東京で会議" + "後" * 200)
    [hit] = find_hits(tx, "needle")
    assert "the needle is here" in hit.excerpt
    assert hit.excerpt.startswith("…")
    assert hit.excerpt.endswith("…")
    assert len(hit.excerpt) < 250
    [hit] = find_hits(tx, "東京")
    assert "東京で会議" in hit.excerpt
    assert "\u200b" not in hit.excerpt


def test_texts_without_cjk_are_indexed_as_they_are() -> None:
    assert searchable("plain text, ünïcödé, emoji 😀") == "plain text, ünïcödé, emoji 😀"


def test_tool_results_and_answers_are_found_too(tx: Transaction) -> None:
    say(tx, "needle", role="assistant")
    say(tx, "needle", role="tool")
    assert {hit.role for hit in find_hits(tx, "needle")} == {"assistant", "tool"}


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["add", "change", "remove"]), st.integers(0, 5), st.sampled_from(["cat", "dog", "東京"])
        ),
        max_size=25,
    )
)
def test_the_index_follows_every_change(tx: Transaction, changes: list[tuple[str, int, str]]) -> None:
    tx.execute("SAVEPOINT example")
    tx.execute("DELETE FROM messages")
    session = sessions.open_current(tx, SessionKey(platform="telegram", kind="dm", chat="1"))
    for change, which, word in changes:
        place = "(SELECT id FROM messages ORDER BY id LIMIT 1 OFFSET ?)"
        if change == "add":
            transcripts.append(tx, session.id, Message(role="user", parts=(Text(text=f"a {word}"),)))
        elif change == "change":
            tx.execute(f"UPDATE messages SET search_text = ? WHERE id = {place}", searchable(f"the {word}"), which)
        else:
            tx.execute(f"DELETE FROM messages WHERE id = {place}", which)
    tx.execute("INSERT INTO messages_search (messages_search, rank) VALUES ('integrity-check', 1)")
    for word in ("cat", "dog", "東京"):
        expected = tx.count("SELECT COUNT(*) FROM messages WHERE search_text LIKE ?", f"% {searchable(word)}")
        assert len(find_hits(tx, word, limit=100)) == expected
    tx.execute("ROLLBACK TO example")


def test_an_error_of_the_file_is_not_taken_for_bad_syntax(tx: Transaction) -> None:
    say(tx, "needle")
    tx.execute("UPDATE messages_search_data SET block = x'00' WHERE id > 10")
    with pytest.raises(sqlite3.DatabaseError):
        find_hits(tx, "needle")


def test_a_damaged_index_is_known_and_rebuilt(said: Transaction) -> None:
    connection = said._connection
    assert not index_is_damaged(connection)
    said.execute("UPDATE messages_search_data SET block = x'00000000' WHERE id > 10")
    assert index_is_damaged(connection)
    assert rebuild_index(connection)
    assert not index_is_damaged(connection)
    assert names(find_hits(said, "deploy")) == ["deploy"]


def test_plain_questions_find_their_evidence(tx: Transaction) -> None:
    """The bar is 80 of 100, within thirty messages, among 20,000 in several styles."""
    asked = write_log(tx)
    assert len(asked) == 200
    found = 0
    for one in asked:
        messages = [m for window in search(tx, one.question, reader=EVERYTHING) for m in window.messages]
        assert len(messages) <= 30
        found += any(message.text == one.evidence for message in messages)
    assert found >= 190


def test_a_hit_comes_with_its_neighbours_and_tools_are_none(tx: Transaction) -> None:
    for role, text in (
        ("user", "before"),
        ("user", "where is the needle?"),
        ("assistant", ""),
        ("tool", "a long listing"),
        ("assistant", "in the haystack"),
        ("user", "thanks"),
    ):
        say(tx, text, role=role)  # type: ignore[arg-type]
    [window] = search(tx, "needle", reader=EVERYTHING)
    assert [(message.text, message.is_hit) for message in window.messages] == [
        ("before", False),
        ("where is the needle?", True),
        ("in the haystack", False),
    ]


def test_hits_beside_each_other_are_one_window_and_all_fit_the_limit(tx: Transaction) -> None:
    for chat in "abcdef":
        for text in ("one", "needle", "needle again", "four"):
            say(tx, text, key=SessionKey(platform="telegram", kind="dm", chat=chat))
    [window, *_] = search(tx, "needle", reader=EVERYTHING)
    assert [message.text for message in window.messages] == ["one", "needle", "needle again", "four"]
    windows = search(tx, "needle", reader=EVERYTHING, limit=3)
    assert sum(len(window.messages) for window in windows) == 9
    seen = [(message.session_id, message.text) for window in windows for message in window.messages]
    assert len(seen) == len(set(seen))


def test_the_whole_history_is_ranked_not_only_its_end(tx: Transaction) -> None:
    say(tx, "the zebra was in the garden", key=SessionKey(platform="telegram", kind="dm", chat="old"))
    for n in range(7_000):
        say(tx, f"the garden and number {n}")
    assert find_hits(tx, "was there a zebra in the garden?")[0].text == "the zebra was in the garden"
    assert len(find_hits(tx, "garden")) == 30
    assert find_hits(tx, "garden number")[0].text.startswith("the garden and number")


ANN, BOB, CAROL = Sender(id="1", name="Ann"), Sender(id="2", name="Bob"), Sender(id="3", name="Carol")
ANNS, BOBS = (SessionKey(platform="telegram", kind="dm", chat=chat) for chat in "12")
GROUP, OTHER_GROUP = (SessionKey(platform="telegram", kind="group", chat=chat) for chat in ("-1", "-2"))
TERMINAL = SessionKey(platform="cli", chat="abc")


@pytest.fixture
def people_talk(tx: Transaction) -> dict[str, str]:
    """Everybody says "canary" in places of their own; return the people's ids by name."""
    exchange(tx, "canary ann", key=ANNS, sender=ANN)
    exchange(tx, "canary bob", key=BOBS, sender=BOB)
    exchange(tx, "canary group", key=GROUP, sender=ANN)
    exchange(tx, "canary group too", key=GROUP, sender=BOB)
    exchange(tx, "canary elsewhere", key=OTHER_GROUP, sender=CAROL)
    say(tx, "canary terminal", key=TERMINAL)
    return {row["name"]: row["person_id"] for row in tx.all("SELECT name, person_id FROM identities")}


@pytest.mark.parametrize(
    "query", ["canary", "canary bob ann", '"canary"', "can*", "canary OR nothing", "canary NOT x", "(canary"]
)
@pytest.mark.parametrize(
    ("who", "key", "places"),
    [
        ("Ann", ANNS, {ANNS, GROUP}),
        ("Bob", BOBS, {BOBS, GROUP}),
        ("Carol", SessionKey(platform="telegram", kind="dm", chat="3"), {OTHER_GROUP}),
        ("Ann", GROUP, {GROUP}),  # where others read along, nothing of her own chats
        ("Carol", OTHER_GROUP, {OTHER_GROUP}),
        ("", TERMINAL, set()),  # nobody in particular
    ],
)
def test_nobody_finds_conversations_of_others(
    tx: Transaction, people_talk: dict[str, str], query: str, who: str, key: SessionKey, places: set[SessionKey]
) -> None:
    reader = reader_in(key, people_talk.get(who))
    windows = search(tx, query, reader=reader, limit=50)
    assert {message.session_key for window in windows for message in window.messages} == set(map(str, places))


def test_common_words_of_others_hide_nothing_and_show_nothing(tx: Transaction, people_talk: dict[str, str]) -> None:
    for n in range(7_000):
        say(tx, f"canary number {n}")
    found = {hit.session_key for hit in find_hits(tx, "canary", reader=Reader(person_id=people_talk["Bob"]))}
    assert found == {str(BOBS), str(GROUP)}


def test_the_owner_reads_the_terminal_and_what_the_owner_took_part_in(
    tx: Transaction, people_talk: dict[str, str]
) -> None:
    assert {hit.session_key for hit in find_hits(tx, "canary", reader=OWNER_READS)} == {str(TERMINAL)}
    people = "UPDATE participants SET person_id = ? WHERE person_id = ?"
    tx.execute("INSERT INTO people (id, name, role, created_ms) VALUES (?, 'me', 'owner', 0)", OWNER)
    tx.execute(people, OWNER, people_talk["Ann"])
    found = {hit.session_key for hit in find_hits(tx, "canary", reader=OWNER_READS)}
    assert found == {str(ANNS), str(GROUP), str(TERMINAL)}


def test_the_page_finds_chats_of_the_page_alone(tx: Transaction, people_talk: dict[str, str]) -> None:
    say(tx, "canary page", key=SessionKey(platform="web", chat="abc"))
    assert [(chat.id, chat.excerpt) for chat in find_chats(tx, "web", "canary")] == [("abc", "canary page")]


@pytest.mark.parametrize("name", ["Bob", "bob", "2"])
def test_a_person_narrows_the_search_and_opens_nothing(tx: Transaction, people_talk: dict[str, str], name: str) -> None:
    where = Filter(person=name)
    assert {hit.session_key for hit in find_hits(tx, "canary", where=where)} == {str(BOBS), str(GROUP)}
    ann = Reader(person_id=people_talk["Ann"])
    assert {hit.session_key for hit in find_hits(tx, "canary", where=where, reader=ann)} == {str(GROUP)}


def test_a_question_does_not_find_itself_nor_earlier_results(tx: Transaction) -> None:
    say(tx, "the needle is in the haystack", key=SessionKey(platform="telegram", kind="dm", chat="2"))
    session = sessions.open_current(tx, SessionKey(platform="telegram", kind="dm", chat="1"))
    transcripts.append(tx, session.id, Message(role="user", parts=(Text(text="where is the needle?"),)), turn_id="t")
    result = Message(role="tool", parts=(Text(text="needle"),), tool_name="session_search", tool_call_id="c")
    transcripts.append(tx, session.id, result, turn_id="before")
    [hit] = find_hits(tx, "where is the needle?", where=Filter(except_turn="t"))
    assert hit.text == "the needle is in the haystack"
