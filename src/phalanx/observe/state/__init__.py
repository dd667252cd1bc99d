"""Listings of a cluster's state: the queries, and how answers are put together from parts."""
