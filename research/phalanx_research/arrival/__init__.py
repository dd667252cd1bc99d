"""The arrival experiment: pods come one after another and stay. It measures the part of the GPUs
that is used in the end.
"""
