"""Requests of processes, nodes and people: one type for each request, by subject."""
