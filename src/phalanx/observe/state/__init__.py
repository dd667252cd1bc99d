"""Listings of a cluster's state: the questions, and how answers are put together."""
