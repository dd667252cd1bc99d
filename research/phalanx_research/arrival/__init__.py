"""The arrival experiment: pods come one after another and stay. It measures which part of the GPUs
is used in the end.
"""
