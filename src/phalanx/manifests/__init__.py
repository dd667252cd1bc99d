"""Volcano's manifests: read within bounds, checked, filled with defaults, and written back."""
