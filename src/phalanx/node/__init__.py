"""A node: the parts that own the resources of one machine of the cluster."""
