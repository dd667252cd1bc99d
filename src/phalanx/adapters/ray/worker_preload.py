"""Imported by the parent of all workers: they start with Ray's names, and its libraries imported.

Importing Tune and what it needs takes a worker longer than most trials' first steps.
"""

from __future__ import annotations

import contextlib
from importlib import import_module

from phalanx.adapters.ray.alias import install

install()
for _library in ("ray.tune", "ray.train", "ray.data"):
    with contextlib.suppress(ImportError):  # a library may need a package that is not installed
        import_module(_library)
