-- Lasting facts: a person's, a chat's, or shared with everybody. A change adds a row and ends the one before it.
CREATE TABLE memories (
    id            INTEGER PRIMARY KEY,
    scope         TEXT NOT NULL CHECK (scope IN ('person', 'chat', 'shared')),
    person_id     TEXT, -- whose it is; in a chat, who said it
    place         TEXT NOT NULL DEFAULT '', -- of a chat's: account and chat
    key           TEXT NOT NULL,
    value         TEXT NOT NULL,
    search_text   TEXT NOT NULL,
    source        TEXT NOT NULL, -- who wrote it: agent, nudge, person, file
    message_id    INTEGER, -- the message of the transcript that it came from
    from_outside  INTEGER NOT NULL DEFAULT 0, -- noted while text from outside was in the conversation
    pinned        INTEGER NOT NULL DEFAULT 0,
    created_ms    BIGINT NOT NULL,
    used_ms       BIGINT NOT NULL DEFAULT 0,
    ended         TEXT NOT NULL DEFAULT '', -- replaced, deleted, undone
    superseded_ms BIGINT,
    successor_id INTEGER,
    in_file       INTEGER NOT NULL DEFAULT 0 -- the file of its key holds this value
);
CREATE UNIQUE INDEX memories_live ON memories (scope, COALESCE(CASE scope WHEN 'person' THEN person_id END, ''), place, key)
 WHERE ended = '';
CREATE INDEX memories_person ON memories (person_id);
CREATE INDEX memories_scope ON memories (scope, person_id);
CREATE INDEX memories_files ON memories (id) WHERE (ended = '') <> in_file;
CREATE VIRTUAL TABLE memories_search USING fts5 (
    search_text, content = 'memories', content_rowid = 'id', tokenize = 'porter unicode61 remove_diacritics 2'
);
CREATE TRIGGER memories_search_insert AFTER INSERT ON memories BEGIN
    INSERT INTO memories_search (rowid, search_text) VALUES (new.id, new.search_text);
END;
CREATE TRIGGER memories_search_delete AFTER DELETE ON memories BEGIN
    INSERT INTO memories_search (memories_search, rowid, search_text) VALUES ('delete', old.id, old.search_text);
END;

-- Up to which message the auxiliary model has looked for facts in a session.
CREATE TABLE memory_looks (
    session_id TEXT PRIMARY KEY,
    message_id INTEGER NOT NULL
);
