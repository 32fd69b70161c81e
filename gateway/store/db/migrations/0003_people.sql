-- Who may speak: identities that were let in for good, and those that were shown the door.
ALTER TABLE identities ADD COLUMN paired_ms BIGINT;
ALTER TABLE identities ADD COLUMN revoked_ms BIGINT;

-- Strangers who asked to be let in. The code itself is made when its message is sent and stands nowhere.
CREATE TABLE pairing_requests (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    account      TEXT NOT NULL,
    user_id      TEXT NOT NULL,
    user_name    TEXT NOT NULL,
    chat         TEXT NOT NULL,
    state        TEXT NOT NULL CHECK (state IN ('pending', 'approved', 'cleared')),
    salt         BLOB,
    hash         BLOB,
    requested_ms BIGINT NOT NULL,
    expires_ms   BIGINT NOT NULL
);
CREATE INDEX pairing_pending ON pairing_requests (account) WHERE state = 'pending';
CREATE INDEX pairing_asked ON pairing_requests (account, user_id, requested_ms);

CREATE TABLE pairing_invites (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    platform   TEXT NOT NULL,
    role       TEXT NOT NULL CHECK (role IN ('owner', 'member', 'guest')),
    salt       BLOB NOT NULL,
    hash       BLOB NOT NULL,
    created_ms BIGINT NOT NULL,
    expires_ms BIGINT NOT NULL,
    used_ms    BIGINT,
    used_by    TEXT NOT NULL DEFAULT ''
);

-- Wrong guesses: who is '' for approvals, else the sender of a wrong invite.
CREATE TABLE pairing_failures (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    platform TEXT NOT NULL,
    who      TEXT NOT NULL,
    at_ms    BIGINT NOT NULL
);
CREATE INDEX pairing_failures_recent ON pairing_failures (platform, at_ms);

-- What is known of a chat as a place: opened for everybody in it, the home for notices.
CREATE TABLE chats (
    account    TEXT NOT NULL,
    chat       TEXT NOT NULL,
    title      TEXT NOT NULL DEFAULT '',
    allowed_ms BIGINT,
    allowed_by TEXT NOT NULL DEFAULT '',
    home_ms    BIGINT,
    PRIMARY KEY (account, chat)
);

-- Said in an allowed chat without being addressed to us: the last few are shown on a mention.
CREATE TABLE overheard (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    session_key TEXT NOT NULL,
    account     TEXT NOT NULL,
    sender_id   TEXT NOT NULL,
    sender_name TEXT NOT NULL,
    message_id  TEXT NOT NULL,
    text        TEXT NOT NULL,
    sent_ms     BIGINT NOT NULL,
    UNIQUE (session_key, message_id)
);

ALTER TABLE inbox ADD COLUMN about TEXT NOT NULL DEFAULT '';
ALTER TABLE inbox ADD COLUMN not_before_ms BIGINT NOT NULL DEFAULT 0;

ALTER TABLE outbox ADD COLUMN choices TEXT NOT NULL DEFAULT '[]';
ALTER TABLE outbox ADD COLUMN edits TEXT NOT NULL DEFAULT ''; -- the platform's id of the message to change in place
ALTER TABLE outbox ADD COLUMN piece INTEGER NOT NULL DEFAULT 0; -- how many pieces of a long one have arrived

-- Whether the chat was told that this session had come to its end by itself.
ALTER TABLE sessions ADD COLUMN reset_told INTEGER NOT NULL DEFAULT 0;

-- Who said it, once the row of the inbox that tells is too old to be kept.
ALTER TABLE messages ADD COLUMN person_id TEXT;

-- Without these, deleting one session would look through all turns and all sessions for what refers to it.
CREATE INDEX turns_session ON turns (session_id);
CREATE INDEX sessions_parent ON sessions (parent_id) WHERE parent_id IS NOT NULL;
