"""`import ray` in a process that has this directory on its path: Phalanx takes the name."""

import sys
from importlib import import_module

if __name__ == "ray":
    del sys.modules["ray"]  # this module: Phalanx asks whether a real Ray was imported
    import_module("phalanx.adapters.ray.alias").install()
    import_module("ray")
