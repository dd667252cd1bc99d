"""A node's process: leases, bundles, workers, shared memory, and its links to head and others."""
