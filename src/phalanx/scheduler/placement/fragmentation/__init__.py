"""Places pods on GPU nodes so that as little of the GPUs as possible becomes useless for later
pods.
"""
