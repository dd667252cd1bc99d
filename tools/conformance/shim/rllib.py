"""What tests of Tune import of ray.rllib: its algorithms are not registered."""


def _register_all():
    pass
