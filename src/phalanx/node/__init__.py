"""A node: the machines that own the resources of one machine of the cluster."""
