"""Typed rows of nodes, queues, gangs and jobs for display; rows are mappings, too."""
