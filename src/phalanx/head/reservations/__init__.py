"""Reservations: parts of the cluster that are kept for some, at some times."""
