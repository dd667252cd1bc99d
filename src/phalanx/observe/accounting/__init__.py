"""Evaluations of the records of attempts: the efficiency of a job, and sums for each hour."""
