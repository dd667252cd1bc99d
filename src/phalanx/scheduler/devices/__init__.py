"""Resources: exact amounts, numbered devices and their wiring, and ports."""
