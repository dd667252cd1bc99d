"""Metrics for monitoring: their names and definitions, and the classes that count them."""
