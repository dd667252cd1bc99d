"""The nodes of the cluster, as the head knows them."""
