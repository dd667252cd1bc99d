"""Queues: their life, what each deserves, and ordinary tasks that wait for one."""
