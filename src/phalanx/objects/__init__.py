"""Objects: references, serialization and streams, and a node's accounting of shared memory."""
