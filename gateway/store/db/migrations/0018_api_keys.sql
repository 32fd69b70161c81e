-- Keys of programs that use the HTTP API, as hashes; each acts with the rights of its person.
CREATE TABLE api_keys (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    hash       TEXT NOT NULL UNIQUE,
    person_id  TEXT NOT NULL,
    label      TEXT NOT NULL DEFAULT '',
    ending     TEXT NOT NULL, -- the last characters, to tell keys apart
    created_ms BIGINT NOT NULL,
    used_ms    BIGINT,
    revoked_ms BIGINT
);
CREATE INDEX api_keys_person ON api_keys (person_id);
