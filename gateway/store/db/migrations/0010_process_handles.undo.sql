-- Moved back from: processes.handle
ALTER TABLE processes RENAME TO processes_with_handles;
DROP INDEX processes_open;
DROP INDEX processes_task;
DROP INDEX processes_holder;
CREATE TABLE processes (
    id                     TEXT PRIMARY KEY,
    holder                 TEXT NOT NULL,
    task_id                TEXT NOT NULL,
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
    told                   BIGINT NOT NULL DEFAULT 0,
    told_ms                BIGINT NOT NULL,
    end_requested          INTEGER NOT NULL DEFAULT 0,
    state                  TEXT NOT NULL CHECK (state IN ('running', 'untold', 'ended'))
);
INSERT INTO processes (
    id, holder, task_id, command, workdir, backend, pid, keeper_pid, keeper_started, folder, pty, interactive,
    check_interval_seconds, notify_on_complete, polled, exit_code, started_ms, ended_ms, account, chat, thread,
    within, chat_kind, user_id, session_key, reply_to, person_id, sender_id, sender_name, told, told_ms,
    end_requested, state)
SELECT
    id, holder, task_id, command, workdir, backend, COALESCE(json_extract(data, '$.pid'), 0),
    COALESCE(json_extract(data, '$.supervisor_pid'), 0),
    COALESCE(json_extract(data, '$.supervisor_started'), 0), COALESCE(json_extract(data, '$.folder'), ''),
    pty, interactive, check_interval_seconds, notify_on_complete, polled, exit_code, started_ms, ended_ms,
    account, chat, thread, within, chat_kind, user_id, session_key, reply_to, person_id, sender_id, sender_name,
    told, told_ms, end_requested, state
FROM (SELECT *, CASE WHEN json_valid(handle) THEN handle ELSE '{}' END AS data FROM processes_with_handles);
DROP TABLE processes_with_handles;
CREATE INDEX processes_open ON processes (session_key) WHERE state <> 'ended';
CREATE INDEX processes_task ON processes (task_id) WHERE state = 'running';
CREATE INDEX processes_holder ON processes (holder, started_ms);
