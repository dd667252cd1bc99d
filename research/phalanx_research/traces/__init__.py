"""Traces of real clusters: nodes, and jobs over time. They are published traces, or a user's
own.
"""
