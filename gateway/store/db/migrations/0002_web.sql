-- Who may open the web page: one-time links and the cookies they became, as hashes.
CREATE TABLE web_keys (
    hash       TEXT PRIMARY KEY,
    kind       TEXT NOT NULL CHECK (kind IN ('link', 'cookie')),
    created_ms BIGINT NOT NULL,
    expires_ms BIGINT NOT NULL
);

CREATE INDEX inbox_session ON inbox (session_key, id);
CREATE INDEX outbox_chat ON outbox (account, chat, id);
CREATE INDEX messages_turn ON messages (turn_id, id);
CREATE INDEX sessions_chat ON sessions (platform, chat, created_ms);
CREATE INDEX sessions_key ON sessions (key, created_ms);

-- The system prompt, fixed when the session begins.
ALTER TABLE sessions ADD COLUMN prompt TEXT;

-- What a provider wants back unchanged with a later request, such as signed thoughts; JSON of its client.
ALTER TABLE messages ADD COLUMN provider_data TEXT NOT NULL DEFAULT '';
