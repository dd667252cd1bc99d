"""A module that the workers' parent imports, so that workers start with Ray's names and libraries.

Otherwise importing Tune and its dependencies would take a worker longer than the first step of most
trials.
"""

from __future__ import annotations

import contextlib
from importlib import import_module

from phalanx.adapters.ray.alias import install

install()
for _library in ("ray.tune", "ray.train", "ray.data"):
    with contextlib.suppress(ImportError):  # a library may need a package that is not installed
        import_module(_library)
