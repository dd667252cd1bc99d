"""Pods that arrive and end at the times of a trace on a full cluster, and how much of its GPUs node
policies keep in use.
"""
