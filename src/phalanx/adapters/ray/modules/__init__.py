"""Modules of Ray that programs import though they are not part of its public interface.

Each offers the part of such a module that Phalanx can honour; see `phalanx.adapters.ray.names`.
"""
