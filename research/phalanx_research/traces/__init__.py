"""Traces of real clusters: nodes, and jobs over time. Traces are published, or a user's own."""
