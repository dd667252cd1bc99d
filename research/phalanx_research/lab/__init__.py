"""A lab's day on simulated machines: many people's jobs, under the whole of the head."""
