"""Life cycles of jobs, flows, cron jobs and queues. These machines take events and ask for
effects.
"""
