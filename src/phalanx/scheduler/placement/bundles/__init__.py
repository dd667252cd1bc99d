"""Bundles that are placed together or not at all."""
