"""Modules of Ray's that programs import though they are no part of its public interface.

Each is what Phalanx can honour of one of them; see `phalanx.adapters.ray.names`.
"""
