"""Places pods on GPU nodes so that as little GPU capacity as possible becomes unusable for later
pods.
"""
