"""Search all messages as people ask: the best matches with their neighbours, only in conversations one may read.

Plain words are ranked over the whole history: messages with all words first, then those with the rarest ones. Syntax
(`"a phrase"`, `begin*`, AND, OR, NOT) is used as FTS5 reads it; what FTS5 does not understand is plain words.
"""

import json
import math
import re
import sqlite3
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, islice

from gateway.messages import SessionKey
from gateway.store.db.connection import Transaction
from gateway.store.people import OWNER
from gateway.store.search_index import CJK, GAP, searchable
from gateway.store.search_words import FORMS, STOP_WORDS

MESSAGES_PER_HIT = 3  # a hit and its neighbours

_MAX_QUERY_CHARS = 1_000  # FTS5's cost grows with the square of the words
_MAX_WORDS = 24
_RANKED = 5_000  # messages whose match is computed: two microseconds each
_COUNTED = 20_000  # a word in more messages than this is as good as one in so many
_NEWEST = 500  # messages of a word that is in very many
_COMMON_TERMS = 3
_FEW = 20_000  # messages of a reader
_CONSIDERED = 12  # messages for each one that is asked for: their neighbours may lift them
_NEAR = 2  # messages on each side that count
_NEIGHBOUR_WEIGHT, _SHOWN_NEIGHBOUR_WEIGHT = 0.35, 0.5
_CHECKED_AT_ONCE = 200
_WITH_SESSION = "CROSS JOIN sessions s ON s.id = m.session_id"  # in this order: there are far more of them
_TEXT_CHARS, _EXCERPT_CHARS = 1_000, 200
_USUAL_CHARS = 150  # of a message in a chat
_TOOK_PART = """s.id IN (SELECT session_id FROM participants WHERE person_id IN (
    SELECT id FROM people WHERE id = ? OR name = ? COLLATE NOCASE
     UNION SELECT person_id FROM identities WHERE user_id = ? OR name = ? COLLATE NOCASE))"""

_SYNTAX = re.compile(r'["*^(){}+:]|\b(?:AND|OR|NOT)\b')
_QUOTED_OR_CJK = re.compile(f'"[^"]*"|[{CJK}]+')
_WORD = re.compile(f"[{CJK}]+|[^\\W{CJK}]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """Whose conversations may be found. Made by `reader_in`; everything is found by `EVERYTHING` alone."""

    person_id: str = ""  # conversations in which they took part; the owner also reads those at the terminal
    chat: tuple[str, str, str] | None = None  # platform, account and chat: nothing but this chat
    everything: bool = False


EVERYTHING = Reader(everything=True)
OWNER_READS = Reader(person_id=OWNER)  # at the terminal and on the page


def reader_in(key: SessionKey, person_id: str | None) -> Reader:
    """Return who reads in a conversation: its person, or in a shared chat everybody there, who may read that alone."""
    if key.is_private:
        return Reader(person_id=person_id or "")
    return Reader(chat=(key.platform, key.account, key.chat))


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    platform: str = ""
    role: str = ""
    person: str = ""  # an id or a name: conversations in which they took part
    since_ms: int = 0
    until_ms: int = 2**62
    except_turn: str = ""  # a question must not find itself


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundMessage:
    session_id: str
    session_key: str
    platform: str
    display_name: str
    role: str
    text: str  # the part around the match when it is long
    excerpt: str  # some twenty words around the match
    created_ms: int
    is_hit: bool  # a neighbour of a hit otherwise


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Messages that follow each other in a conversation, at least one of them a hit."""

    messages: tuple[FoundMessage, ...]

    @property
    def hit(self) -> FoundMessage:
        return next(message for message in self.messages if message.is_hit)


@dataclass(frozen=True, slots=True)
class _Scope:
    """Conditions over `sessions s` and `messages m`: what may be read, and the filters."""

    sessions: str
    session_values: tuple[str, ...]
    messages: str
    message_values: tuple[str | int, ...]
    is_small: bool = False  # these sessions have few messages

    @property
    def in_sessions(self) -> str:
        return f"SELECT m.id FROM sessions s CROSS JOIN messages m ON m.session_id = s.id WHERE {self.sessions}"  # noqa: S608

    @property
    def sql(self) -> str:
        return f"{self.sessions} AND {self.messages}"

    @property
    def values(self) -> tuple[str | int, ...]:
        return (*self.session_values, *self.message_values)


def search(
    tx: Transaction, query: str, *, reader: Reader, where: Filter | None = None, limit: int = 10
) -> list[Window]:
    """Return at most three messages for each of `limit`, in windows, best first. No query is an error."""
    # A broken byte on a command line is half a character.
    query = query[:_MAX_QUERY_CHARS].encode("utf-8", "replace").decode()
    words = list(dict.fromkeys(map(str.lower, _WORD.findall(query))))[:_MAX_WORDS]
    telling = [word for word in words if word not in STOP_WORDS] or words
    scope = _scope(tx, reader, where or Filter())
    scores = _match(tx, query, telling, scope)
    allowed = _allow(tx, scores, scope, count=limit * _CONSIDERED)
    chosen = _choose(allowed, _find_neighbours(tx, allowed), limit)
    return [Window(messages=tuple(_load(tx, group, allowed, telling))) for group in chosen]


def _scope(tx: Transaction, reader: Reader, where: Filter) -> _Scope:
    sessions, session_values = _limit_sessions(reader, platform=where.platform, person=where.person)
    filters: dict[str, str | int] = {
        "m.created_ms >= ?": where.since_ms,
        "m.created_ms <= ?": where.until_ms,
        "m.tool_name <> ?": "session_search",  # else results would find results
    }
    if where.role:
        filters["m.role = ?"] = where.role
    if where.except_turn:
        filters["m.turn_id IS NOT ?"] = where.except_turn
    scope = _Scope(sessions, session_values, " AND ".join(filters), tuple(filters.values()))
    count = f"SELECT COUNT(*) FROM ({scope.in_sessions} LIMIT ?)"  # noqa: S608
    return replace(scope, is_small=tx.count(count, *session_values, _FEW + 1) <= _FEW)


def list_readable(tx: Transaction, reader: Reader, *, person: str = "") -> list[str]:
    """Return the ids of the conversations that may be read, oldest first; `person`: those in which they took part."""
    sessions, values = _limit_sessions(reader, person=person)
    rows = tx.all(f"SELECT s.id FROM sessions s WHERE {sessions} ORDER BY s.created_ms, s.id", *values)  # noqa: S608
    return [row["id"] for row in rows]


def _limit_sessions(reader: Reader, *, platform: str = "", person: str = "") -> tuple[str, tuple[str, ...]]:
    """Return a condition over `sessions s`, by which they may be read and pass the filters, and its values."""
    conditions: dict[str, tuple[str, ...]] = {"TRUE": ()}
    if reader.chat is not None:
        conditions["s.platform = ? AND s.account = ? AND s.chat = ?"] = reader.chat
    elif not reader.everything:
        took_part = "s.id IN (SELECT session_id FROM participants WHERE person_id = ?)"
        at_terminal = "NOT EXISTS (SELECT 1 FROM participants WHERE session_id = s.id)"
        readable = f"({took_part} OR {at_terminal})" if reader.person_id == OWNER else took_part
        conditions[readable] = (reader.person_id,)
    if platform:
        conditions["s.platform = ?"] = (platform,)
    if person:
        conditions[_TOOK_PART] = (person,) * 4
    return " AND ".join(conditions), tuple(value for values in conditions.values() for value in values)


def _match(tx: Transaction, query: str, words: Sequence[str], scope: _Scope) -> dict[int, float]:
    """Return the score of each matching message."""
    if _SYNTAX.search(query):
        try:
            return _score_expression(tx, _QUOTED_OR_CJK.sub(_quote, query), scope)
        except sqlite3.OperationalError as error:
            if getattr(error, "sqlite_errorcode", 0) != sqlite3.SQLITE_ERROR:
                raise
    return _score_words(tx, [_term(word) for word in words], scope)


def _quote(found: re.Match[str]) -> str:
    return _phrase(found.group().strip('"'))


def _phrase(text: str) -> str:
    return f'"{searchable(text)}"'


def _term(word: str) -> str:
    """Return an expression that finds a word in all its forms."""
    forms = FORMS.get(word, (word,))
    return _phrase(word) if len(forms) == 1 else f"({' OR '.join(map(_phrase, forms))})"


def _score_expression(tx: Transaction, expression: str, scope: _Scope) -> dict[int, float]:
    if not expression.strip():
        return {}
    if _count(tx, expression, _RANKED + 1) <= _RANKED:
        return _bm25(tx, expression)
    return _prefer_short(tx, dict.fromkeys(_newest(tx, expression, scope), 1.0))


def _score_words(tx: Transaction, terms: Sequence[str], scope: _Scope) -> dict[int, float]:
    """Score messages by their words: those with all of them first, then by how rare their words are."""
    counts = {term: count for term in terms if (count := _count(tx, term, _COUNTED))}
    known = sorted(counts, key=counts.__getitem__)
    if not known:
        return {}
    total = tx.count("SELECT MAX(id) FROM messages")
    rarity = {term: math.log(1 + (total - count + 0.5) / (count + 0.5)) for term, count in counts.items()}
    spent = accumulate(counts[term] for term in known)
    rare = [term for term, messages in zip(known, spent, strict=True) if messages <= _RANKED]
    scores = _score_rare(tx, rare, known, counts, rarity) if rare else _score_common(tx, known, rarity, scope)
    if len(terms) == len(known) > 1:
        all_words = _newest(tx, " AND ".join(known), scope)
        lift = max(scores.values(), default=0.0)
        scores |= {message: lift + scores.get(message, 0.0) for message in all_words}
    return scores


def _score_rare(
    tx: Transaction, rare: Sequence[str], known: Sequence[str], counts: Mapping[str, int], rarity: Mapping[str, float]
) -> dict[int, float]:
    """Score the messages with a rare word; other words only add to these, and the most common ones nothing."""
    any_rare = " OR ".join(rare)
    scores = _bm25(tx, any_rare)
    for term in known[len(rare) :]:
        if counts[term] < _COUNTED:
            both = f"({any_rare}) AND {term}"
            matches = "SELECT rowid AS id FROM messages_search WHERE messages_search MATCH ?"
            for message in _read_ids(tx, matches, both):
                scores[message] += rarity[term]
    return scores


def _score_common(
    tx: Transaction, known: Sequence[str], rarity: Mapping[str, float], scope: _Scope
) -> dict[int, float]:
    """Score messages by words that are in very many: of each, the newest are as good as any."""
    scores: dict[int, float] = defaultdict(float)
    for term in known[:_COMMON_TERMS]:
        for message in _newest(tx, term, scope):
            scores[message] += rarity[term]
    return _prefer_short(tx, scores)


def _count(tx: Transaction, expression: str, most: int) -> int:
    matches = "SELECT 1 FROM messages_search WHERE messages_search MATCH ? LIMIT ?"
    return tx.count(f"SELECT COUNT(*) FROM ({matches})", expression, most)  # noqa: S608


def _bm25(tx: Transaction, expression: str) -> dict[int, float]:
    # The limit keeps SQLite from computing bm25 outside of the search, where it cannot.
    matches = """SELECT rowid AS id, -bm25(messages_search) AS score FROM messages_search WHERE messages_search MATCH ?
                  LIMIT -1"""
    return _read_numbers(tx, "score", matches, expression)


def _read_ids(tx: Transaction, query: str, *values: str | int) -> list[int]:
    return list(_read_numbers(tx, "id", query, *values))


def _read_numbers(tx: Transaction, column: str, query: str, *values: str | int) -> dict[int, float]:
    """Return a number for each id. As one text: thousands of row objects set the garbage collector off, which then
    goes through all that the process holds and takes longer than the query."""
    [row] = tx.all(f"SELECT json_group_array(id), json_group_array({column}) FROM ({query})", *values)  # noqa: S608
    return dict(zip(*map(json.loads, row), strict=True))


def _newest(tx: Transaction, expression: str, scope: _Scope) -> set[int]:
    """Return the newest matching messages that may be read."""
    # Of a reader with few messages, so that those of others are not even looked up.
    among = f"+f.rowid IN ({scope.in_sessions}) AND" if scope.is_small else ""
    found = _read_ids(
        tx,
        f"""SELECT f.rowid AS id FROM messages_search f CROSS JOIN messages m ON m.id = f.rowid {_WITH_SESSION}
             WHERE messages_search MATCH ? AND {among} {scope.sql} ORDER BY f.rowid DESC LIMIT ?""",  # noqa: S608
        expression,
        *(scope.session_values if among else ()),
        *scope.values,
        _NEWEST,
    )
    return set(found)


def _prefer_short(tx: Transaction, scores: Mapping[int, float]) -> dict[int, float]:
    """Lower the scores of long messages, as bm25 does: a word says less about them."""
    ids = json.dumps(list(scores))
    query = "SELECT id, length(search_text) AS chars FROM messages WHERE id IN (SELECT value FROM json_each(?))"
    sizes = _read_numbers(tx, "chars", query, ids)
    return {message: scores[message] * 2.2 / (1.3 + 0.9 * chars / _USUAL_CHARS) for message, chars in sizes.items()}


def _allow(tx: Transaction, scores: Mapping[int, float], scope: _Scope, *, count: int) -> dict[int, float]:
    """Return the best messages that may be read and pass the filters; of equal ones, the newer."""
    best = sorted(scores, key=lambda message: (-scores[message], -message))
    allowed: dict[int, float] = {}
    for start in range(0, len(best), _CHECKED_AT_ONCE):
        part = best[start : start + _CHECKED_AT_ONCE]
        query = f"""SELECT m.id FROM messages m {_WITH_SESSION}
                     WHERE m.id IN (SELECT value FROM json_each(?)) AND {scope.sql}"""  # noqa: S608
        readable = set(_read_ids(tx, query, json.dumps(part), *scope.values))
        allowed |= {message: scores[message] for message in part if message in readable}
        if len(allowed) >= count:
            break
    return dict(islice(allowed.items(), count))


def _find_neighbours(tx: Transaction, messages: Iterable[int]) -> dict[int, list[tuple[int, ...]]]:
    """Return, nearest first, what was said before and after each message in its conversation; tools do not count."""
    said = "SELECT n.id FROM messages n WHERE n.session_id = m.session_id AND n.role <> 'tool' AND n.search_text <> ''"
    rows = tx.all(
        f"""SELECT m.id,
                   (SELECT json_group_array(id) FROM ({said} AND n.id < m.id ORDER BY n.id DESC LIMIT {_NEAR})),
                   (SELECT json_group_array(id) FROM ({said} AND n.id > m.id ORDER BY n.id LIMIT {_NEAR}))
              FROM messages m WHERE m.id IN (SELECT value FROM json_each(?))""",  # noqa: S608
        json.dumps(list(messages)),
    )
    return {row[0]: [tuple(json.loads(side)) for side in row[1:]] for row in rows}


def _choose(
    scores: Mapping[int, float], neighbours: Mapping[int, Sequence[Sequence[int]]], limit: int
) -> list[list[int]]:
    """Return the messages of each window, best first. The best hits come with both neighbours; of weaker ones, further
    hits are worth more than their neighbours."""
    strength = {
        message: score
        + sum(
            _NEIGHBOUR_WEIGHT
            * max((scores.get(one, 0.0) / distance for distance, one in enumerate(side, 1)), default=0.0)
            for side in neighbours[message]
        )
        for message, score in scores.items()
    }
    ranked = sorted(strength, key=lambda message: -strength[message])
    worth: dict[int, float] = {}
    for place, message in enumerate(ranked):
        share = 1.0 if place * 2 < limit else _SHOWN_NEIGHBOUR_WEIGHT
        worth[message] = max(worth.get(message, 0.0), strength[message])
        for side in neighbours[message]:
            for one in side[:1]:
                worth[one] = max(worth.get(one, 0.0), strength[message] * share)
    chosen = set(sorted(worth, key=lambda message: -worth[message])[: limit * MESSAGES_PER_HIT])
    windows: dict[int, list[int]] = {}  # by message; those of a window share one list
    for message in filter(chosen.__contains__, ranked):
        for one in (message, *(side[0] for side in neighbours[message] if side and side[0] in chosen)):
            window, other = windows.setdefault(message, [message]), windows.get(one, [one])
            if window is not other:
                window += other
                windows |= dict.fromkeys(other, window)
    return [sorted(window) for window in {id(window): window for window in windows.values()}.values()]


def _load(tx: Transaction, ids: Sequence[int], hits: Container[int], words: Sequence[str]) -> Iterator[FoundMessage]:
    rows = tx.all(
        """SELECT m.id, m.role, m.search_text, m.created_ms, s.id AS session_id, s.key, s.platform, s.display_name
             FROM messages m JOIN sessions s ON s.id = m.session_id
            WHERE m.id IN (SELECT value FROM json_each(?)) ORDER BY m.id""",
        json.dumps(ids),
    )
    for row in rows:
        text = row["search_text"].replace(GAP, "").strip()
        yield FoundMessage(
            session_id=row["session_id"],
            session_key=row["key"],
            platform=row["platform"],
            display_name=row["display_name"],
            role=row["role"],
            text=_cut(text, words, _TEXT_CHARS),
            excerpt=_cut(text, words, _EXCERPT_CHARS),
            created_ms=row["created_ms"],
            is_hit=row["id"] in hits,
        )


def _cut(text: str, words: Sequence[str], size: int) -> str:
    """Return the part of a long text around its first word, the longest ones first; other forms begin alike."""
    if len(text) <= size:
        return text
    lower = text.lower()
    stems = sorted((word[: max(3, len(word) - 2)] for word in words), key=len, reverse=True)
    place = next((place for stem in stems if (place := lower.find(stem)) >= 0), 0)
    start = max(0, min(place - size // 3, len(text) - size))
    cut = text[start : start + size]
    return f"{'…' if start else ''}{cut}{'…' if start + size < len(text) else ''}"
