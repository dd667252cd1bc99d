"""Bundles that are placed together: all of them, or none."""
