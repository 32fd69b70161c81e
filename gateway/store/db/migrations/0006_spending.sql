-- What each model call used: reserved before it where a budget applies, settled after it.
CREATE TABLE spending (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    key           TEXT NOT NULL UNIQUE,
    at_ms         BIGINT NOT NULL,
    day           TEXT NOT NULL, -- in the owner's time zone, such as 2026-03-22
    person_id     TEXT NOT NULL, -- empty: several who asked together, or somebody who was forgotten
    chat          TEXT NOT NULL, -- such as telegram:-100123, cron:backup or cli
    session_id    TEXT NOT NULL,
    model         TEXT NOT NULL,
    input_tokens  BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    cached_tokens BIGINT NOT NULL,
    cost_micros   BIGINT NOT NULL,
    priced        INTEGER NOT NULL, -- 0: nobody knows what it cost
    settled       INTEGER NOT NULL  -- 0: reserved, the numbers are an estimate
);
CREATE INDEX spending_day ON spending (day);
CREATE INDEX spending_person ON spending (person_id, day);
CREATE INDEX spending_chat ON spending (chat, day);
CREATE INDEX spending_reserved ON spending (id) WHERE settled = 0;
