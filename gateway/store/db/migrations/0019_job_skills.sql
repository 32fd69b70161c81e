-- The skills that a scheduled job is given with its prompt, separated by commas.
ALTER TABLE cron_jobs ADD COLUMN skills TEXT NOT NULL DEFAULT '';
