"""Evaluations of the records of attempts: the efficiency of a job, and hourly sums."""
