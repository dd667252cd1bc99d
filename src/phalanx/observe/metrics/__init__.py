"""Metrics for monitoring: their names and definitions, and machines that count them."""
