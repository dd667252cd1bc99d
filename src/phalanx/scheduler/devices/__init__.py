"""Resources: exact amounts, numbered devices and their wiring, ports."""
