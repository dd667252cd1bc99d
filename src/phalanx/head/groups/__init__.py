"""Placement groups: all bundles of a group are on nodes, or none is."""
