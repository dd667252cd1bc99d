"""Simulated clusters: production code with simulated time, network, workers and storage."""
