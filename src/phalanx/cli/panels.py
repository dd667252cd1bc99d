"""Titles of the panels that group the options of large commands in `--help`."""

from __future__ import annotations

RESOURCES = "Resources"
PLACEMENT = "Queue and placement"
TIME = "Time"
DEPENDENCIES = "Dependencies and arrays"
FAILURES = "Failures and restarts"
COMMAND = "Command"
OUTPUT = "Output"
CLUSTER = "Cluster"
HEAD = "Head (with --head)"
NODE = "Node"
DEVICES = "Devices"
CHECKS = "Health checks"
NETWORK = "Network and security"
