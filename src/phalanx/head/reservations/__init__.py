"""Reservations: parts of the cluster that are kept for certain users or queues at certain times."""
