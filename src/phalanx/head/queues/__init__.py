"""Queues: their life cycle, the amounts that they deserve, and the admission of ordinary tasks."""
