"""A node's process: leases, bundles, workers, shared memory, and its ways to head and others."""
