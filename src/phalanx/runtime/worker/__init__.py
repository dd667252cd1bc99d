"""Processes that run tasks, actors and commands, and the zygote that forks them."""
