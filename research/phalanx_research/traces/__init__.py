"""Traces of real clusters, published or one's own: nodes, and jobs over time."""
