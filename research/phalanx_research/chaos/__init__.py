"""Simulated clusters: the production machines, with simulated time, network, workers and
storage.
"""
