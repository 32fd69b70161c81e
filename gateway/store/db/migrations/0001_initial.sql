-- Times are milliseconds since 1970 in UTC. What only Python reads is JSON in TEXT.

CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value BIGINT NOT NULL
);
-- Counted up with every commit; the mark file beside the database says how far it ever came.
INSERT INTO meta (name, value) VALUES ('commits', 0);

-- What the operator must be told, shown by `hermes status`.
CREATE TABLE notices (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    at_ms   BIGINT NOT NULL,
    text    TEXT NOT NULL
);

CREATE TABLE people (
    id         TEXT PRIMARY KEY,
    name       TEXT NOT NULL,
    role       TEXT NOT NULL CHECK (role IN ('owner', 'member', 'guest')),
    timezone   TEXT NOT NULL DEFAULT '',
    language   TEXT NOT NULL DEFAULT '',
    created_ms BIGINT NOT NULL
);

CREATE TABLE identities (
    account   TEXT NOT NULL,
    user_id   TEXT NOT NULL,
    person_id TEXT NOT NULL REFERENCES people (id),
    name      TEXT NOT NULL,
    PRIMARY KEY (account, user_id)
);

CREATE TABLE sessions (
    id            TEXT PRIMARY KEY,
    key           TEXT NOT NULL,
    platform      TEXT NOT NULL,
    account       TEXT NOT NULL,
    kind          TEXT NOT NULL,
    chat          TEXT NOT NULL,
    thread        TEXT NOT NULL,
    user_id       TEXT NOT NULL,
    title         TEXT NOT NULL DEFAULT '',
    display_name  TEXT NOT NULL DEFAULT '',
    settings      TEXT NOT NULL DEFAULT '{}',
    input_tokens  BIGINT NOT NULL DEFAULT 0,
    output_tokens BIGINT NOT NULL DEFAULT 0,
    cached_tokens BIGINT NOT NULL DEFAULT 0,
    total_tokens  BIGINT NOT NULL DEFAULT 0,
    cost_micros   BIGINT NOT NULL DEFAULT 0,
    parent_id     TEXT REFERENCES sessions (id),
    created_ms    BIGINT NOT NULL,
    updated_ms    BIGINT NOT NULL,
    ended_ms      BIGINT,
    end_reason    TEXT
);
CREATE UNIQUE INDEX sessions_current ON sessions (key) WHERE ended_ms IS NULL;
CREATE INDEX sessions_recent ON sessions (updated_ms);

CREATE TABLE turns (
    id             TEXT PRIMARY KEY,
    session_key    TEXT NOT NULL,
    session_id     TEXT NOT NULL REFERENCES sessions (id),
    state          TEXT NOT NULL CHECK (state IN ('running', 'paused', 'done')),
    outcome        TEXT NOT NULL DEFAULT '',
    resumes        INTEGER NOT NULL DEFAULT 0,
    stop_requested INTEGER NOT NULL DEFAULT 0,
    started_ms     BIGINT NOT NULL,
    ended_ms       BIGINT
);
CREATE UNIQUE INDEX turns_one_per_session ON turns (session_key) WHERE state <> 'done';

CREATE TABLE inbox (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    account     TEXT NOT NULL,
    chat        TEXT NOT NULL,
    message_id  TEXT NOT NULL,
    kind        TEXT NOT NULL,
    edited_ms   BIGINT NOT NULL DEFAULT 0,
    thread      TEXT NOT NULL,
    session_key TEXT NOT NULL,
    chat_kind   TEXT NOT NULL,
    user_id     TEXT NOT NULL,
    person_id   TEXT REFERENCES people (id),
    role        TEXT NOT NULL,
    sender_id   TEXT NOT NULL,
    sender_name TEXT NOT NULL,
    parts       TEXT NOT NULL,
    sent_ms     BIGINT NOT NULL,
    accepted_ms BIGINT NOT NULL,
    own_turn    INTEGER NOT NULL,
    state       TEXT NOT NULL CHECK (state IN ('ready', 'running', 'done')),
    outcome     TEXT NOT NULL DEFAULT '',
    turn_id     TEXT REFERENCES turns (id) DEFERRABLE INITIALLY DEFERRED, -- claimed first, then the turn is made
    UNIQUE (account, chat, message_id, kind, edited_ms)
);
CREATE INDEX inbox_open ON inbox (session_key, sent_ms, id) WHERE state <> 'done';
CREATE INDEX inbox_turn ON inbox (turn_id) WHERE turn_id IS NOT NULL;

CREATE TABLE messages (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id   TEXT NOT NULL REFERENCES sessions (id),
    turn_id      TEXT,
    inbox_id     BIGINT UNIQUE REFERENCES inbox (id),
    role         TEXT NOT NULL CHECK (role IN ('user', 'assistant', 'tool')),
    parts        TEXT NOT NULL,
    tool_calls   TEXT NOT NULL DEFAULT '',
    tool_call_id TEXT NOT NULL DEFAULT '',
    tool_name    TEXT NOT NULL DEFAULT '',
    is_error     INTEGER NOT NULL DEFAULT 0,
    reasoning    TEXT NOT NULL DEFAULT '',
    search_text  TEXT NOT NULL,
    created_ms   BIGINT NOT NULL
);
CREATE INDEX messages_session ON messages (session_id, id);
CREATE UNIQUE INDEX messages_one_result ON messages (turn_id, tool_call_id) WHERE role = 'tool' AND turn_id IS NOT NULL;

-- A tool call that was begun: after a crash it is not begun again.
CREATE TABLE tool_starts (
    turn_id    TEXT NOT NULL,
    call_id    TEXT NOT NULL,
    started_ms BIGINT NOT NULL,
    PRIMARY KEY (turn_id, call_id)
);

-- The agent's own lists, one a session.
CREATE TABLE todos (
    task_id TEXT PRIMARY KEY,
    todos   TEXT NOT NULL
);

CREATE TABLE media (
    sha256     TEXT PRIMARY KEY,
    kind       TEXT NOT NULL,
    mime       TEXT NOT NULL,
    size_bytes BIGINT NOT NULL,
    created_ms BIGINT NOT NULL
);

CREATE TABLE outbox (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    key           TEXT NOT NULL UNIQUE,
    kind          TEXT NOT NULL CHECK (kind IN ('answer', 'notice')),
    account       TEXT NOT NULL,
    chat          TEXT NOT NULL,
    thread        TEXT NOT NULL,
    reply_to      TEXT NOT NULL,
    answers       TEXT NOT NULL DEFAULT '[]',
    parts         TEXT NOT NULL,
    notify        INTEGER NOT NULL DEFAULT 1,
    topic         TEXT NOT NULL DEFAULT '',
    turn_id       TEXT,
    state         TEXT NOT NULL CHECK (state IN ('ready', 'sending', 'unsure', 'sent', 'failed', 'in_doubt', 'expired')),
    attempts      INTEGER NOT NULL DEFAULT 0,
    unsure        INTEGER NOT NULL DEFAULT 0, -- an earlier try may have arrived
    not_before_ms BIGINT NOT NULL DEFAULT 0,
    expires_ms    BIGINT NOT NULL,
    created_ms    BIGINT NOT NULL,
    sent_ms       BIGINT,
    receipt       TEXT,
    problem       TEXT NOT NULL DEFAULT ''
);
CREATE INDEX outbox_open ON outbox (account, chat, id) WHERE state IN ('ready', 'sending', 'unsure');

CREATE TABLE cursors (
    account TEXT NOT NULL,
    channel TEXT NOT NULL,
    value   TEXT NOT NULL,
    PRIMARY KEY (account, channel)
);

CREATE TABLE trail (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    at_ms     BIGINT NOT NULL,
    event     TEXT NOT NULL,
    inbox_id  BIGINT,
    turn_id   TEXT,
    outbox_id BIGINT,
    detail    TEXT NOT NULL DEFAULT '{}'
);
CREATE INDEX trail_inbox ON trail (inbox_id) WHERE inbox_id IS NOT NULL;
CREATE INDEX trail_turn ON trail (turn_id) WHERE turn_id IS NOT NULL;
CREATE INDEX trail_refused ON trail (id) WHERE event = 'refused';

CREATE VIRTUAL TABLE messages_search USING fts5 (
    search_text, content = 'messages', content_rowid = 'id', tokenize = 'unicode61 remove_diacritics 2'
);
CREATE TRIGGER messages_search_insert AFTER INSERT ON messages BEGIN
    INSERT INTO messages_search (rowid, search_text) VALUES (new.id, new.search_text);
END;
CREATE TRIGGER messages_search_delete AFTER DELETE ON messages BEGIN
    INSERT INTO messages_search (messages_search, rowid, search_text) VALUES ('delete', old.id, old.search_text);
END;
CREATE TRIGGER messages_search_update AFTER UPDATE OF search_text ON messages BEGIN
    INSERT INTO messages_search (messages_search, rowid, search_text) VALUES ('delete', old.id, old.search_text);
    INSERT INTO messages_search (rowid, search_text) VALUES (new.id, new.search_text);
END;
