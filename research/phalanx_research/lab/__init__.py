"""A lab's day on simulated machines: many users' jobs, run by the whole head."""
