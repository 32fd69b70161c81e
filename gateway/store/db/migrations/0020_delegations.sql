-- Tasks that a turn has delegated. Each is a session and a turn of its own; the call that waits for it is found by these.
CREATE TABLE delegations (
    turn_id       TEXT PRIMARY KEY,            -- of the task
    session_id    TEXT NOT NULL,               -- of the task
    parent_turn   TEXT NOT NULL,
    parent_call   TEXT NOT NULL,
    position      INTEGER NOT NULL,            -- in the call, from 1
    result        TEXT NOT NULL DEFAULT '',    -- JSON; empty while it is at work
    created_ms    BIGINT NOT NULL
);
CREATE UNIQUE INDEX delegations_of_call ON delegations (parent_turn, parent_call, position);
CREATE INDEX delegations_open ON delegations (parent_turn) WHERE result = '';
