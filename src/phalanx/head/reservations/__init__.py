"""Reservations: parts of the cluster that are kept for some users or queues, at some times."""
