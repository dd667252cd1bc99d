"""A module that the workers' parent imports, so that workers start with Ray's names and libraries.

A worker would need longer to import Tune and its dependencies than most trials' first steps take.
"""

from __future__ import annotations

import contextlib
from importlib import import_module

from phalanx.adapters.ray.alias import install

install()
for _library in ("ray.tune", "ray.train", "ray.data"):
    with contextlib.suppress(ImportError):  # a library may need a package that is not installed
        import_module(_library)
