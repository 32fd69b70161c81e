-- A version that cannot ask refuses such calls: those that wait are told so when their turns go on.
DROP TABLE approval_rules;
DROP TABLE approvals;
