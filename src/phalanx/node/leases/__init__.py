"""Leases of a node: they give workers and resources to owners, until the owners return them."""
