"""Placement groups: every bundle of a group has a node, or none has."""
