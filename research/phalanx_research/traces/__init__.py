"""Traces of real clusters, and of one's own: nodes, and jobs over time."""
