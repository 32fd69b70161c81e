-- A conversation that was shortened for the model: the messages before `head_upto`, the summary, the pinned messages,
-- and those from `upto` on. All messages stay.
CREATE TABLE compactions (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id    TEXT NOT NULL REFERENCES sessions (id),
    head_upto     BIGINT NOT NULL,
    upto          BIGINT NOT NULL,
    pinned        TEXT NOT NULL, -- JSON: ids of messages
    summary       TEXT NOT NULL, -- JSON; empty while only results of tools were shortened
    tokens_before BIGINT NOT NULL,
    tokens_after  BIGINT NOT NULL,
    created_ms    BIGINT NOT NULL
);
CREATE INDEX compactions_session ON compactions (session_id, id);

-- What the model is shown in place of a long result of a tool.
CREATE TABLE stubs (
    message_id INTEGER PRIMARY KEY,
    session_id TEXT NOT NULL,
    parts      TEXT NOT NULL,
    created_ms BIGINT NOT NULL
);
CREATE INDEX stubs_session ON stubs (session_id);

-- The provider's last count of a conversation: so many tokens up to this message.
CREATE TABLE context_counts (
    session_id TEXT PRIMARY KEY REFERENCES sessions (id),
    tokens     BIGINT NOT NULL,
    upto       BIGINT NOT NULL
);
