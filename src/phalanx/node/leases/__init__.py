"""Leases of a node: who gets which worker with which resources, and when it comes back."""
