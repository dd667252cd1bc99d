"""The head: the machines that decide for a cluster."""
