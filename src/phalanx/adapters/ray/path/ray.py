"""`import ray` in a process that has this directory on its path: Phalanx takes the name."""

import sys
from importlib import import_module

if __name__ == "ray":
    # remove this module, because Phalanx checks whether a real Ray was imported
    del sys.modules["ray"]
    import_module("phalanx.adapters.ray.alias").install()
    import_module("ray")
