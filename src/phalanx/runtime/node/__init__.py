"""A node's process: leases, bundles, workers, shared memory, and its links to the head and to other
nodes.
"""
