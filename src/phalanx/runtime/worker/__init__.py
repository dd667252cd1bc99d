"""Processes that run tasks, actors and commands, and the fork server that starts them."""
