-- An exchange that its user took back: kept, but no longer given to the model.
CREATE TABLE undone (
    id         INTEGER PRIMARY KEY, -- of the message
    session_id TEXT NOT NULL,
    undone_ms  BIGINT NOT NULL
);
CREATE INDEX undone_session ON undone (session_id);

-- The tool call that the turn of a message makes instead of asking the model.
CREATE TABLE direct_calls (
    id         INTEGER PRIMARY KEY, -- of the message in the inbox
    call       TEXT NOT NULL, -- JSON
    created_ms BIGINT NOT NULL
);
