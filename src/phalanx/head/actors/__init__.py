"""Actors of the cluster: who is where, who may have which name, and when one is made again."""
