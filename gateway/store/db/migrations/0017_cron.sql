-- Scheduled jobs. `next_ms` is when an active one is due.
CREATE TABLE cron_jobs (
    id            TEXT PRIMARY KEY,
    name          TEXT NOT NULL,
    person_id     TEXT NOT NULL, -- in whose name it runs
    account       TEXT NOT NULL DEFAULT '', -- the identity that made it; empty: at the terminal or in the settings
    sender_id     TEXT NOT NULL DEFAULT '',
    sender_name   TEXT NOT NULL DEFAULT '',
    source        TEXT NOT NULL, -- chat, cli, config, import
    kind          TEXT NOT NULL, -- cron, every, once
    schedule      TEXT NOT NULL,
    timezone      TEXT NOT NULL,
    anchor_ms     BIGINT NOT NULL,
    prompt        TEXT NOT NULL,
    deliver       TEXT NOT NULL, -- origin, home, a platform, a chat, local
    place         TEXT NOT NULL DEFAULT '', -- account and chat, where they are fixed
    thread        TEXT NOT NULL DEFAULT '',
    model         TEXT NOT NULL DEFAULT '',
    toolsets      TEXT NOT NULL DEFAULT '', -- separated by commas
    repeats       INTEGER NOT NULL DEFAULT 0, -- 0: forever
    runs          INTEGER NOT NULL DEFAULT 0, -- begun by the schedule
    budget_tokens INTEGER NOT NULL DEFAULT 0, -- per day; 0: as the settings say
    definition    TEXT NOT NULL DEFAULT '', -- as it stands in the settings: JSON
    status        TEXT NOT NULL DEFAULT 'active', -- active, paused, completed
    status_reason TEXT NOT NULL DEFAULT '',
    failures      INTEGER NOT NULL DEFAULT 0, -- in a row
    next_ms       BIGINT,
    created_ms    BIGINT NOT NULL
);
CREATE UNIQUE INDEX cron_jobs_name ON cron_jobs (person_id, lower(name));
CREATE INDEX cron_jobs_due ON cron_jobs (next_ms) WHERE status = 'active';

-- Each occurrence of a job. A row that accounts for several missed ones has their number.
CREATE TABLE cron_runs (
    id            INTEGER PRIMARY KEY,
    job_id        TEXT NOT NULL,
    job_name      TEXT NOT NULL,
    person_id     TEXT NOT NULL,
    due_ms        BIGINT NOT NULL,
    occurrences   INTEGER NOT NULL DEFAULT 1,
    state         TEXT NOT NULL, -- queued, then ran, late, skipped or failed
    reason        TEXT NOT NULL DEFAULT '',
    is_late       INTEGER NOT NULL DEFAULT 0,
    inbox_id      INTEGER,
    account       TEXT NOT NULL DEFAULT '', -- where the answer goes
    chat          TEXT NOT NULL DEFAULT '',
    thread        TEXT NOT NULL DEFAULT '',
    budget_tokens INTEGER NOT NULL DEFAULT 0,
    outbox_id     INTEGER, -- the answer
    file          TEXT NOT NULL DEFAULT '', -- the answer, where it went to a file
    is_silent     INTEGER NOT NULL DEFAULT 0, -- the agent had nothing to say
    begun_ms      BIGINT NOT NULL,
    ended_ms      BIGINT,
    UNIQUE (job_id, due_ms)
);
CREATE INDEX cron_runs_inbox ON cron_runs (inbox_id);
CREATE INDEX cron_runs_outbox ON cron_runs (outbox_id);
CREATE INDEX cron_runs_open ON cron_runs (job_id) WHERE state = 'queued';
