"""Tests on a Ray cluster: a head and three raylets on this machine, with pretended GPUs."""
