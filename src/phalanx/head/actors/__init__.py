"""The cluster's actors: their nodes, their names, and their restarts."""
