"""Placing pods on GPU nodes so that little of the GPUs becomes useless to later pods."""
