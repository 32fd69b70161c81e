-- Commands that run in the background, and where news of them goes: a crash must neither lose nor double it.
CREATE TABLE processes (
    id                     TEXT PRIMARY KEY,
    holder                 TEXT NOT NULL,
    task_id                TEXT NOT NULL, -- the session in which it was started
    command                TEXT NOT NULL,
    workdir                TEXT NOT NULL,
    backend                TEXT NOT NULL,
    pid                    BIGINT NOT NULL,
    keeper_pid             BIGINT NOT NULL,
    keeper_started         BIGINT NOT NULL,
    folder                 TEXT NOT NULL,
    pty                    INTEGER NOT NULL,
    interactive            INTEGER NOT NULL,
    check_interval_seconds INTEGER NOT NULL,
    notify_on_complete     INTEGER NOT NULL,
    polled                 BIGINT NOT NULL,
    exit_code              INTEGER,
    started_ms             BIGINT NOT NULL,
    ended_ms               BIGINT,
    -- Whoever started it, as the message in the inbox had it. No account: nobody is told.
    account                TEXT NOT NULL DEFAULT '',
    chat                   TEXT NOT NULL DEFAULT '',
    thread                 TEXT NOT NULL DEFAULT '',
    within                 TEXT NOT NULL DEFAULT '',
    chat_kind              TEXT NOT NULL DEFAULT '',
    user_id                TEXT NOT NULL DEFAULT '',
    session_key            TEXT NOT NULL DEFAULT '',
    reply_to               TEXT NOT NULL DEFAULT '',
    person_id              TEXT,
    sender_id              TEXT NOT NULL DEFAULT '',
    sender_name            TEXT NOT NULL DEFAULT '',
    told                   BIGINT NOT NULL DEFAULT 0, -- up to which byte of its output the chat was told
    told_ms                BIGINT NOT NULL,
    end_requested          INTEGER NOT NULL DEFAULT 0,
    -- untold: the agent has seen that it ended, the chat that follows its output has not been told
    state                  TEXT NOT NULL CHECK (state IN ('running', 'untold', 'ended'))
);
CREATE INDEX processes_open ON processes (session_key) WHERE state <> 'ended';
CREATE INDEX processes_task ON processes (task_id) WHERE state = 'running';
CREATE INDEX processes_holder ON processes (holder, started_ms);
