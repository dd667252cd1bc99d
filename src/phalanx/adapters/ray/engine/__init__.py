"""The Ray engine: Ray moves bytes and manages machines, and Phalanx decides. Only this package and
`adapters/ray/scheduler` import ray, which the extra `ray` installs.
"""
