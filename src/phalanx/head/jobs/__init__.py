"""Life cycles of jobs, flows, cron jobs and queues: events in, effects asked for."""
