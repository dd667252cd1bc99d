"""Stand-ins for the names that tests import from Ray's own conftest.

Each stand-in is imported on first use, because every process of a test imports this module, also
each worker.
"""

import importlib

_OURS = {"_ray_start_cluster": "_cluster", "propagate_logs": "propagate_logs"}
_stand_in = __getattr__  # noqa: F821  (put here before this file runs)


def __getattr__(name):
    if name in _OURS:
        return getattr(importlib.import_module("conf_fixtures"), _OURS[name])
    return _stand_in(name)


__getattr__.answers_all = True
