DROP TRIGGER messages_participant;
DROP TABLE participants;
DROP TABLE messages_search;
CREATE VIRTUAL TABLE messages_search USING fts5 (
    search_text, content = 'messages', content_rowid = 'id', tokenize = 'unicode61 remove_diacritics 2'
);
INSERT INTO messages_search (messages_search) VALUES ('rebuild');
