"""Environments on this machine: prepared once by uv, pip or conda, and kept in a cache."""
