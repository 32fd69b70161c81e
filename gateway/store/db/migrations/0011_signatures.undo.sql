DROP INDEX approvals_approved;
ALTER TABLE approvals DROP COLUMN signature;
ALTER TABLE approval_rules DROP COLUMN signature;
