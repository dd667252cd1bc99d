"""The Ray engine: Ray moves bytes and keeps machines, Phalanx decides.

Only this package imports ray, which the extra `ray` brings.
"""
