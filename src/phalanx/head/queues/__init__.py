"""Queues: their life cycle, what each deserves, and the admission of ordinary tasks."""
