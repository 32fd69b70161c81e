DROP TABLE cron_runs;
DROP TABLE cron_jobs;
