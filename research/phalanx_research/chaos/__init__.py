"""Simulated clusters: the production machines on simulated time, network, workers and storage."""
