"""A node: the parts that own the resources of one computer of the cluster."""
