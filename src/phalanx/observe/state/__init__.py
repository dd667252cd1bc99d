"""Listings of what a cluster does and holds: what may be asked, and how answers come together."""
