"""Life cycles of jobs, arrays, flows and cron jobs. These machines take events and ask for
effects.
"""
