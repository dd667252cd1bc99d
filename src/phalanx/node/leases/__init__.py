"""Leases of a node: which worker and which resources go to whom, and when they come back."""
