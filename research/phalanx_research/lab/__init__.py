"""A lab's day on simulated machines: the jobs of many users, which the complete head schedules."""
