"""A store that has served many people for a long time, written by SQL alone, since answering them takes hours."""

from contextlib import closing
from pathlib import Path

from gateway.clock import now_ms
from gateway.store.db.connection import connect
from gateway.store.db.prepare import BackupPolicy, prepare
from tests.bench.scratch import ACCOUNT

RARE_WORD, COMMON_WORD = "zyxomma", "the"
_WORDS = 20_000
_RARE_EVERY = 50_000

_STATEMENTS = (
    """CREATE TEMP TABLE past AS
        WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < :asked - 1)
        SELECT n, n % :sessions AS chat, :account || ':dm:' || (n % :sessions) AS key,
               's' || (n % :sessions) AS session, 't' || n AS turn, :began_ms + n AS at_ms FROM numbers""",
    "INSERT INTO people (id, name, role, created_ms) VALUES ('ada', 'Ada', 'owner', 0)",
    "INSERT INTO identities (account, user_id, person_id, name) VALUES (:account, '1', 'ada', 'Ada')",
    """INSERT INTO sessions (id, key, platform, account, kind, chat, thread, user_id, created_ms, updated_ms)
        SELECT session, key, :account, '', 'dm', chat, '', '', at_ms, at_ms FROM past WHERE n < :sessions""",
    """INSERT INTO turns (id, session_key, session_id, state, outcome, started_ms, ended_ms)
        SELECT turn, key, session, 'done', 'answered', at_ms, at_ms FROM past""",
    """INSERT INTO inbox (id, account, chat, message_id, kind, thread, session_key, chat_kind, user_id, person_id,
               role, sender_id, sender_name, parts, sent_ms, accepted_ms, own_turn, state, outcome, turn_id)
        SELECT n + 1, :account, chat, 'm' || n, 'message', '', key, 'dm', '', 'ada', 'owner', '1', 'Ada', '[]', at_ms,
               at_ms, 0, 'done', 'answered', turn FROM past""",
    f"""WITH roles (role) AS (VALUES ('user'), ('assistant'))
        INSERT INTO messages (session_id, turn_id, inbox_id, role, parts, search_text, created_ms)
        SELECT session, turn, CASE role WHEN 'user' THEN n + 1 END, role, json_array(json_object('type', 'text',
               'text', 'line ' || n)), '{COMMON_WORD} w' || (n * 7919 % {_WORDS}) || ' w' || (n * 104729 % {_WORDS})
               || ' w' || (n * 31 % 97) || CASE WHEN n % {_RARE_EVERY} = 0 THEN ' {RARE_WORD}' ELSE '' END, at_ms
          FROM past, roles""",
    """INSERT INTO outbox (key, kind, account, chat, thread, reply_to, parts, turn_id, state, expires_ms, created_ms,
               sent_ms, receipt)
        SELECT 'k' || n, 'answer', :account, chat, '', 'm' || n, '[]', turn, 'sent', at_ms, at_ms, at_ms, n
          FROM past""",
    """WITH events (event) AS (VALUES ('claimed'), ('answered'), ('sent'))
        INSERT INTO trail (at_ms, event, inbox_id, turn_id) SELECT at_ms, event, n + 1, turn FROM past, events""",
    """INSERT INTO spending (key, at_ms, day, person_id, chat, session_id, model, input_tokens, output_tokens,
               cached_tokens, cost_micros, priced, settled)
        SELECT 'c' || n, at_ms, 'day ' || n % 100, 'ada', :account || ':' || chat, session, 'instant', 100, 20, 0, 0, 1,
               1 FROM past""",
    "DROP TABLE past",
)


def make_filled_store(path: Path, *, messages: int, sessions: int, account: str = ACCOUNT) -> None:
    """Half of the messages are people's, half our answers, the sessions taking turns. Nothing waits to be done."""
    prepare(path, BackupPolicy(backups=path.parent / "backups"), repair=False)
    values = {"asked": messages // 2, "sessions": sessions, "account": account, "began_ms": now_ms() - messages}
    with closing(connect(path, busy_timeout_seconds=1)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("BEGIN")
        for statement in _STATEMENTS:
            connection.execute(statement, values)
        connection.execute("COMMIT")
