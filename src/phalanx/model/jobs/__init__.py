"""The types of jobs: a job's request, its states, and its records."""
