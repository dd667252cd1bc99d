"""The types of jobs: what a job asks for, its states, and its records."""
