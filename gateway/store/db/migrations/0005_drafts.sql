-- Messages in which an answer is seen growing, known before they are sent: a crash must leave none behind.
CREATE TABLE drafts (
    turn_id    TEXT PRIMARY KEY,
    key        TEXT NOT NULL UNIQUE,
    account    TEXT NOT NULL,
    chat       TEXT NOT NULL,
    thread     TEXT NOT NULL,
    reply_to   TEXT NOT NULL,
    message_id TEXT NOT NULL DEFAULT '', -- empty: it may have been sent or not
    begun_ms   BIGINT NOT NULL,
    settled_ms BIGINT NOT NULL DEFAULT 0 -- when the next process began: by then it had been sent, or never would be
);

-- The platform's id of a draft that is taken away just before this is sent.
ALTER TABLE outbox ADD COLUMN replaces TEXT NOT NULL DEFAULT '';
