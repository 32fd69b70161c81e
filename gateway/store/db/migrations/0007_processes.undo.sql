DROP TABLE processes;
-- What began a turn goes on as a message: a version that does not know the kind could not end that turn.
UPDATE inbox SET kind = 'message' WHERE kind = 'wake' AND state <> 'done';
UPDATE inbox SET state = 'done', outcome = 'undone' WHERE kind = 'process' AND state <> 'done';
