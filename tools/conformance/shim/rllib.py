"""The names that tests of Tune import from ray.rllib. RLlib's algorithms are not registered."""


def _register_all():
    pass
