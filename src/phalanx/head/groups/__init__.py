"""Placement groups: every bundle of a group on a node, or none."""
