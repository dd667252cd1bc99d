"""A worker: the work that was sent to a process, what of it runs, and what that holds."""
