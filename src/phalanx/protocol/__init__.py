"""The messages between the processes of a cluster, and their bytes."""
