-- Only its backend knows how a background process is found again, so that is one opaque value.
ALTER TABLE processes ADD COLUMN handle TEXT NOT NULL DEFAULT '{}'; -- JSON
UPDATE processes SET handle = json_object(
    'pid', pid, 'supervisor_pid', keeper_pid, 'supervisor_started', keeper_started, 'folder', folder);
ALTER TABLE processes DROP COLUMN pid;
ALTER TABLE processes DROP COLUMN keeper_pid;
ALTER TABLE processes DROP COLUMN keeper_started;
ALTER TABLE processes DROP COLUMN folder;
