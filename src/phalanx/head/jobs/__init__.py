"""Life cycles of jobs, flows, cron jobs and queues. They take events and ask for effects."""
