"""Leases: a node lends workers and resources to owners until the owners return them."""
