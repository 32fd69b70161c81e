-- The tools of MCP servers that a conversation began with: they stay the same to its end, also after a restart.
CREATE TABLE offered_tools (
    session_id TEXT NOT NULL,
    servers    TEXT NOT NULL,     -- names, joined by commas: with others the conversation is offered anew
    tools      TEXT NOT NULL,     -- JSON
    PRIMARY KEY (session_id, servers)
);
