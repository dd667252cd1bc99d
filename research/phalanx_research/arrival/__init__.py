"""The arrival experiment: pods come one after another and stay; it measures how much of the GPUs
gets used.
"""
