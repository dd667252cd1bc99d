"""What needs a Ray cluster: a head and three raylets on this machine, with GPUs that are not."""
