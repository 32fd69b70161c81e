"""Search: what is found and in which order; no query is an error."""

import sqlite3
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_core.conversation import Message, Role
from gateway.messages import SessionKey, Text
from gateway.store import sessions, transcripts
from gateway.store.db.connection import Transaction
from gateway.store.search import Filter, Hit, index_is_damaged, rebuild_index, search, searchable
from tests.gateway.store.conftest import Clock

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
    for text in TEXTS.values():
        say(tx, text)
    return tx


def names(hits: list[Hit]) -> list[str]:
    """Which of the texts were found: their excerpts are short enough to be whole."""
    return [next(name for name, text in TEXTS.items() if text == hit.excerpt) for hit in hits]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("deploy", ["deploy"]),
        ("DEPLOY", ["deploy"]),
        ("disk", ["disk", "deploy"]),  # the one that is all about it first
        ("deploy disk", ["deploy"]),
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
        ("botを", ["mixed"]),
        ("E1234", ["code"]),
        ("nothing like that", []),
    ],
)
def test_what_is_found_and_in_which_order(said: Transaction, query: str, found: list[str]) -> None:
    hits = names(search(said, query))
    assert hits == found if "OR" not in query else sorted(hits) == sorted(found)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ('"disk was full', ["deploy"]),
        ('disk "', ["disk", "deploy"]),
        ("deploy)", ["deploy"]),
        ("(deploy", ["deploy"]),
        ("deploy AND", []),  # the word "and" is not in it
        ("AND deploy", []),
        ("deploy OR", []),
        ("NOT deploy", []),
        ("don't", ["code"]),
        ("C++", ["code"]),
        ("node.js", ["code"]),
        ("foo_bar.py", ["code"]),
        ("ann@example.com", ["code"]),
        ("disk: full", ["deploy"]),
        ("nowhere : disk", []),
        ("*", []),
        ("*disk", ["disk", "deploy"]),
        ("disk **", ["disk", "deploy"]),
        ("disk,full", ["deploy"]),
        ("disk; DROP TABLE messages", []),
        ("disk -full", ["deploy"]),
        ("-disk", ["disk", "deploy"]),
        ("NEAR(alpha", []),
        ("NEAR(alpha gamma, x)", []),
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
    assert names(search(said, query)) == found


@pytest.mark.parametrize(
    "query",
    ["disk " * 20_000, "disk OR " * 3_000 + "disk", "(" * 5_000 + "disk" + ")" * 5_000, "a" * 1_000_000, "東" * 20_000],
    ids=["many words", "many ors", "deep", "one long word", "long cjk"],
)
def test_a_monstrous_query_is_no_error(said: Transaction, query: str) -> None:
    """Nor does it take minutes, as the first of these would if FTS5 were handed all of it."""
    search(said, query)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(alphabet=st.sampled_from("aдé東かア한\"*()^+-:,.{}'\0 ANDORTE\ud800") | st.characters(), max_size=30))
def test_no_query_whatever_is_an_error(said: Transaction, query: str) -> None:
    search(said, query)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(alphabet="東京会議かなカナ한글々abc ", min_size=1, max_size=20), st.data())
def test_any_two_cjk_neighbours_are_found(tx: Transaction, text: str, data: st.DataObject) -> None:
    pairs = [
        text[at : at + 2] for at in range(len(text) - 1) if all(c in "東京会議かなカナ한글" for c in text[at : at + 2])
    ]
    if pairs:
        tx.execute("SAVEPOINT example")
        say(tx, text)
        assert search(tx, data.draw(st.sampled_from(pairs)))
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
    hits = search(tx, "needle", where=where)
    assert sorted((hit.platform, hit.role, hit.created_ms) for hit in hits) == sorted(
        (one.platform, one.role, one.at_ms) for one in expected
    )


def test_filters_hold_also_for_plain_words(tx: Transaction) -> None:
    say(tx, "it's a needle")
    assert search(tx, "it's", where=Filter(platform="discord")) == []
    assert len(search(tx, "it's", where=Filter(platform="telegram"))) == 1


def test_a_limit_keeps_the_best(said: Transaction) -> None:
    assert names(search(said, "disk", limit=1)) == ["disk"]


def test_a_hit_says_where_it_is(tx: Transaction, clock: Clock) -> None:
    say(tx, "needle", key=SessionKey(platform="slack", kind="channel", chat="C1", thread="1.2"))
    [hit] = search(tx, "needle")
    session = sessions.find_current(tx, "slack:channel:C1:1.2")
    assert session is not None
    assert hit == Hit(
        session_id=session.id,
        session_key="slack:channel:C1:1.2",
        platform="slack",
        display_name="Ann",
        role="user",
        excerpt="needle",
        created_ms=clock.ms,
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
    [hit] = search(tx, query)
    assert hit.excerpt == text


def test_an_excerpt_of_a_long_text_shows_the_place(tx: Transaction) -> None:
    say(tx, "before " * 100 + "the needle is here " + "after " * 100)
    say(tx, "前" * 100 + "東京で会議" + "後" * 100)
    [hit] = search(tx, "needle")
    assert "the needle is here" in hit.excerpt
    assert hit.excerpt.startswith("…")
    assert hit.excerpt.endswith("…")
    assert len(hit.excerpt) < 250
    [hit] = search(tx, "東京")
    assert "東京で会議" in hit.excerpt
    assert "\u200b" not in hit.excerpt


def test_texts_without_cjk_are_indexed_as_they_are() -> None:
    assert searchable("plain text, ünïcödé, emoji 😀") == "plain text, ünïcödé, emoji 😀"


def test_tool_results_and_answers_are_found_too(tx: Transaction) -> None:
    say(tx, "needle", role="assistant")
    say(tx, "needle", role="tool")
    assert {hit.role for hit in search(tx, "needle")} == {"assistant", "tool"}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
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
        assert len(search(tx, word, limit=100)) == expected
    tx.execute("ROLLBACK TO example")


def test_an_error_of_the_file_is_not_taken_for_bad_syntax(tx: Transaction) -> None:
    say(tx, "needle")
    tx.execute("UPDATE messages_search_data SET block = x'00' WHERE id > 10")
    with pytest.raises(sqlite3.DatabaseError):
        search(tx, "needle")


def test_a_damaged_index_is_known_and_rebuilt(said: Transaction) -> None:
    connection = said._connection
    assert not index_is_damaged(connection)
    said.execute("UPDATE messages_search_data SET block = x'00000000' WHERE id > 10")
    assert index_is_damaged(connection)
    assert rebuild_index(connection)
    assert not index_is_damaged(connection)
    assert names(search(said, "deploy")) == ["deploy"]
