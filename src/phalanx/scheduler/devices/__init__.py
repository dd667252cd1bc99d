"""The resources of nodes: exact amounts, numbered devices and their wiring, and ports."""
