"""Makes the modules importable that `py_modules` of a runtime environment names.

As on Ray, a directory is the module with its name, and so is a file `NAME.py`. A directory without
an `__init__.py` may itself contain modules, and a zip file or wheel does; these are added to the
path.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType


def offer_modules(paths: Sequence[str]) -> None:
    """Make these modules importable, before all other modules of the same names."""
    for path in reversed(paths):
        if _holds_modules(path):
            sys.path.insert(0, path)
    names = {_name(path): os.path.dirname(path) for path in reversed(paths) if _is_module(path)}
    if names:
        sys.meta_path.insert(0, _Modules(names))


class _Modules(MetaPathFinder):
    """Finds the given modules by their names. Other modules in the same directories are not
    found.
    """

    def __init__(self, directories: dict[str, str]) -> None:
        self._directories = directories

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        directory = self._directories.get(fullname)
        return None if directory is None else PathFinder.find_spec(fullname, [directory], target)


def _name(path: str) -> str:
    return os.path.basename(path).removesuffix(".py")


def _is_module(path: str) -> bool:
    return path.endswith(".py") or os.path.isdir(path)


def _holds_modules(path: str) -> bool:
    if os.path.isdir(path):
        return not os.path.exists(os.path.join(path, "__init__.py"))
    return not path.endswith(".py")
