"""What other programs are told of Phalanx, one module a program; each needs that program installed.

Nothing of Phalanx imports these: who uses one imports it, or its host finds it by an entry point.
"""
