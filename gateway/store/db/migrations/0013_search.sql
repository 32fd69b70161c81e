-- Search finds the other forms of a word ("deployed" for "deploying"), and a person finds only conversations in which
-- they took part.
DROP TABLE messages_search;
CREATE VIRTUAL TABLE messages_search USING fts5 (
    search_text, content = 'messages', content_rowid = 'id', tokenize = 'porter unicode61 remove_diacritics 2'
);
INSERT INTO messages_search (messages_search) VALUES ('rebuild');

CREATE TABLE participants (
    session_id TEXT NOT NULL REFERENCES sessions (id),
    person_id  TEXT NOT NULL REFERENCES people (id),
    PRIMARY KEY (person_id, session_id)
);
CREATE INDEX participants_session ON participants (session_id);
INSERT INTO participants (session_id, person_id)
SELECT m.session_id, p.id
  FROM messages m LEFT JOIN inbox i ON i.id = m.inbox_id JOIN people p ON p.id = COALESCE(i.person_id, m.person_id)
 WHERE m.role = 'user' AND m.session_id IN (SELECT id FROM sessions)
 GROUP BY m.session_id, p.id ORDER BY MIN(m.id);
CREATE TRIGGER messages_participant AFTER INSERT ON messages WHEN new.inbox_id IS NOT NULL BEGIN
    INSERT OR IGNORE INTO participants (session_id, person_id)
    SELECT new.session_id, person_id FROM inbox WHERE id = new.inbox_id AND person_id IS NOT NULL;
END;
