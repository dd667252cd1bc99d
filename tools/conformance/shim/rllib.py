"""The names that tests of Tune import from ray.rllib; its algorithms are not registered."""


def _register_all():
    pass
