-- Changes of skills that the agent proposed, and what became of them. The skills themselves are files of the home.
CREATE TABLE skill_proposals (
    id         INTEGER PRIMARY KEY,
    session_id TEXT NOT NULL,
    turn_id    TEXT,
    person_id  TEXT, -- who was asked
    name       TEXT NOT NULL,
    category   TEXT NOT NULL DEFAULT '',
    action     TEXT NOT NULL,
    files      TEXT NOT NULL, -- JSON: the new text of each file, null to delete it
    base       TEXT NOT NULL, -- digest of the skill that the change was made for; empty for a new one
    question   TEXT NOT NULL, -- as it was put to the owner, with the difference
    state      TEXT NOT NULL CHECK (state IN ('waiting', 'accepted', 'refused', 'replaced')),
    decided_by TEXT NOT NULL DEFAULT '',
    created_ms BIGINT NOT NULL
);
CREATE INDEX skill_proposals_session ON skill_proposals (session_id);
CREATE INDEX skill_proposals_waiting ON skill_proposals (turn_id) WHERE state = 'waiting';
CREATE INDEX skill_proposals_person ON skill_proposals (person_id);
