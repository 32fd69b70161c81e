-- Calls of tools that wait for a human's yes. A crash must neither lose a question nor let a yes count twice.
CREATE TABLE approvals (
    id            TEXT PRIMARY KEY, -- short: people may have to type it
    turn_id       TEXT NOT NULL,
    call_id       TEXT NOT NULL,
    session_id    TEXT NOT NULL,
    session_key   TEXT NOT NULL,
    -- For whom it would be done, as the message in the inbox had it. No sender: several asked together.
    holder        TEXT NOT NULL,
    person_id     TEXT,
    account       TEXT NOT NULL,
    sender_id     TEXT NOT NULL DEFAULT '',
    sender_name   TEXT NOT NULL DEFAULT '',
    tool          TEXT NOT NULL,
    action        TEXT NOT NULL,
    place         TEXT NOT NULL,
    reasons       TEXT NOT NULL,
    rules         TEXT NOT NULL,
    binding       TEXT NOT NULL,
    decider       TEXT NOT NULL CHECK (decider IN ('owner', 'asker')),
    -- Where the question stands.
    asked_account TEXT NOT NULL,
    asked_chat    TEXT NOT NULL,
    asked_thread  TEXT NOT NULL DEFAULT '',
    outbox_id     BIGINT,
    state         TEXT NOT NULL CHECK (state IN ('waiting', 'approved', 'used', 'denied', 'expired', 'withdrawn')),
    scope         TEXT NOT NULL DEFAULT '', -- of a yes: once, session, always
    decided_by    TEXT NOT NULL DEFAULT '',
    asked_ms      BIGINT NOT NULL,
    expires_ms    BIGINT NOT NULL,
    decided_ms    BIGINT
);
CREATE UNIQUE INDEX approvals_call ON approvals (turn_id, call_id, binding);
CREATE INDEX approvals_waiting ON approvals (session_key) WHERE state = 'waiting';

-- What need not be asked again: in one conversation, or in all of one person's.
CREATE TABLE approval_rules (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    holder     TEXT NOT NULL,
    session_id TEXT NOT NULL DEFAULT '', -- empty: in all
    rule       TEXT NOT NULL,
    granted_by TEXT NOT NULL,
    granted_ms BIGINT NOT NULL
);
CREATE UNIQUE INDEX approval_rules_once ON approval_rules (holder, session_id, rule);
