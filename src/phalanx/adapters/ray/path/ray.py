"""The module that `import ray` finds in a process with this directory on its path. It replaces
itself by Phalanx.
"""

import sys
from importlib import import_module

if __name__ == "ray":
    # remove this module, because Phalanx checks whether a real Ray was imported
    del sys.modules["ray"]
    import_module("phalanx.adapters.ray.alias").install()
    import_module("ray")
