"""Listings of a cluster's state: the queries, and the parts from which answers are put together."""
