-- Decisions and granted rules count only with a signature. Those from before are signed when the key is made.
ALTER TABLE approvals ADD COLUMN signature TEXT NOT NULL DEFAULT '';
ALTER TABLE approval_rules ADD COLUMN signature TEXT NOT NULL DEFAULT '';
CREATE INDEX approvals_approved ON approvals (id) WHERE state = 'approved';
