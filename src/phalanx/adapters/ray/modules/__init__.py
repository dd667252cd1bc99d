"""Replacements for modules of Ray that programs import although they are not part of Ray's public
interface.

Each replacement has the part of Ray's module that Phalanx supports (see
`phalanx.adapters.ray.names`).
"""
