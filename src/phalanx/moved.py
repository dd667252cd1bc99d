"""Aliases for modules that programs import under their names before version 0.2.

A program that imports `phalanx.integrations.prefect` gets `phalanx.adapters.prefect`, the same
module under both names, with a DeprecationWarning. The old names are removed in version 0.3.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

MOVED = {
    "phalanx.batch": "phalanx.scheduler.cycle",
    "phalanx.batch.actions": "phalanx.scheduler.actions",
    "phalanx.batch.plugin_parts": "phalanx.scheduler.plugin_parts",
    "phalanx.batch.plugins": "phalanx.scheduler.plugins",
    "phalanx.bench": "phalanx_benchmarks",
    "phalanx.cli.ray_command": "phalanx.adapters.ray.command.main",
    "phalanx.cli.slurm": "phalanx.adapters.slurm.commands",
    "phalanx.compat.jobs": "phalanx.adapters.ray.jobs",
    "phalanx.compat.ray_modules": "phalanx.adapters.ray.modules",
    "phalanx.compat.slurm": "phalanx.adapters.slurm",
    "phalanx.demo": "phalanx_research.demo",
    "phalanx.integrations": "phalanx.adapters",
    "phalanx.plan": "phalanx.scheduler.forecast",
    "phalanx.policies": "phalanx.scheduler.placement",
    "phalanx.resources": "phalanx.scheduler.devices",
    "phalanx.scheduling": "phalanx.scheduler.placement",
    "phalanx.sim": "phalanx_research",
}
"""The new name of each moved package or module. The modules in a moved package have moved with
it.
"""


def new_name(name: str) -> str | None:
    """Return the present name of a module; None for one that did not move.

    >>> new_name("phalanx.batch.plugins.sjf")
    'phalanx.scheduler.plugins.sjf'
    """
    old = name
    while old and old not in MOVED:
        old = old.rpartition(".")[0]
    return MOVED[old] + name.removeprefix(old) if old else None


class Finder:
    """Finds modules by their old names. It imports other modules only when a program uses an old
    name.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return a spec whose loader returns the module under its new name; None for a module that
        did not move.
        """
        new = new_name(fullname) if fullname.startswith("phalanx.") else None
        if new is None:
            return None
        from importlib.machinery import ModuleSpec

        loader: Any = _Same(new)  # no base class, because importing the usual one takes long
        return ModuleSpec(fullname, loader, is_package=True)


class _Same:
    """The loader that returns the module with the new name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        import warnings
        from importlib import import_module

        warnings.warn(f"{spec.name} is called {self._name} now", DeprecationWarning, stacklevel=2)
        module = import_module(self._name)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # the import system has replaced this spec


def find_moved_modules() -> None:
    """Make moved modules importable under their old names as well."""
    if not any(isinstance(finder, Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, Finder())
