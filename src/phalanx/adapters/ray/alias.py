"""Phalanx under Ray's module names, so that an unchanged Ray program runs.

Call `install()` before the program imports ray, or run `python -m phalanx.compat.ray script.py`.
With `libraries=True` (`--libraries`) Tune, Train and Data come from an installed ray (`libraries`).
What Phalanx honours is there. Of the rest, names that programs import at their top import too, and
refuse when they are called; any other raises ImportError or AttributeError that says so.
"""

from __future__ import annotations

import importlib
import os
import sys
import types
from collections.abc import Callable, Sequence
from functools import partial
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

from phalanx.adapters.ray.libraries import InstalledRay, find_installed, is_of_library
from phalanx.adapters.ray.names import REFUSED, SAME_MODULE, SOME_NAMES
from phalanx.runtime.engine import dialect

LIBRARIES_MARKER = "PHALANX_COMPAT_RAY_LIBRARIES"
"""Set to 1 in the environment: `install` takes Ray's libraries too where it is not told."""

PROGRAM = "PHALANX_COMPAT_RAY_PROGRAM"
"""The file that runs under Ray's names: for the processes that it spawns."""

RAY_VERSION = "2.60.0"
"""The version of Ray whose interface is followed; programs read it as `ray.__version__`."""
RAY_COMMIT = "phalanx"
"""In place of a commit of Ray's: `ray.__commit__`, and what the job API says."""


def install(*, libraries: bool | None = None) -> None:
    """Give Phalanx the module names of Ray, here and in the workers started from here.

    With `libraries` the packages of Tune, Train, Data and AIR come from the installed ray, on
    Phalanx's core; None takes what the environment variable PHALANX_COMPAT_RAY_LIBRARIES says.
    Raises RuntimeError when ray itself is imported already: its names cannot change owner; and
    LibrariesUnavailableError when the libraries are wanted and cannot be had.
    """
    loaded = sys.modules.get("ray")
    if loaded is not None and not isinstance(loaded, _Gathered):
        where = getattr(loaded, "__file__", "an unknown place")
        raise RuntimeError(
            f"ray is imported already, from {where}: call phalanx.compat.ray.install() before "
            "the first `import ray`"
        )
    finder = _installed_finder() or _Finder()
    if libraries is None:
        libraries = os.environ.get(LIBRARIES_MARKER) == "1"
    if not libraries:
        finder.libraries = None
    elif finder.libraries is None:
        finder.libraries = find_installed()
    os.environ[dialect.VARIABLE] = "ray"
    os.environ[LIBRARIES_MARKER] = "1" if libraries else "0"
    if finder not in sys.meta_path:
        sys.meta_path.insert(0, finder)


def installation() -> Callable[[], None]:
    """What a worker of this program runs at its start: the same names, with the same libraries."""
    return partial(install, libraries=_libraries() is not None)


def preloaded() -> tuple[str, ...]:
    """What the workers of a runtime that this program starts find imported."""
    return () if _libraries() is None else ("phalanx.adapters.ray.worker_preload",)


def uninstall() -> None:
    """Take the names back; modules that are imported already keep what they have."""
    os.environ.pop(dialect.VARIABLE, None)
    os.environ.pop(LIBRARIES_MARKER, None)
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _Finder)]
    for name in [name for name in sys.modules if name == "ray" or name.startswith("ray.")]:
        del sys.modules[name]


def _installed_finder() -> _Finder | None:
    return next((finder for finder in sys.meta_path if isinstance(finder, _Finder)), None)


def _libraries() -> InstalledRay | None:
    finder = _installed_finder()
    return None if finder is None else finder.libraries


class _Gathered(types.ModuleType):
    """A module under Ray's name whose public names come from modules of ours, when asked for."""

    def __getattr__(self, name: str) -> Any:
        inner = f"{self.__name__}.{name}"
        found = _attribute(self.__name__, name)
        if found is _MISSING and name in REFUSED.get(self.__name__, ()):
            found = _refusing(inner)
        is_module = inner in SAME_MODULE or _is_gathered(inner) or _is_of_libraries(inner)
        if is_module and (found is _MISSING or isinstance(found, types.ModuleType)):
            return importlib.import_module(inner)
        if found is _MISSING:
            raise AttributeError(_refusal(inner))
        setattr(self, name, found)
        return found

    def __setattr__(self, name: str, value: object) -> None:
        # `ray.util.placement_group` is a module and a function of it: the function has the name.
        if isinstance(value, types.ModuleType) and name in self.__dict__.get("__all__", ()):
            inner = getattr(value, name, value)
            value = value if isinstance(inner, types.ModuleType) else inner
        super().__setattr__(name, value)

    def __reduce__(self) -> Any:
        # Functions of the program take `ray` along as a global; a worker has the names too.
        return (importlib.import_module, (self.__name__,))

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *_public_names(self.__name__)})


_MISSING = object()


def _attribute(ray_module: str, name: str) -> Any:
    for module_name, names in SOME_NAMES.get(ray_module, {}).items():
        if name in _listed(module_name, names):
            return getattr(importlib.import_module(module_name), name, _MISSING)
    return _MISSING


def _public_names(ray_module: str) -> list[str]:
    ours = [
        name
        for module_name, names in SOME_NAMES.get(ray_module, {}).items()
        for name in _listed(module_name, names)
        if not name.startswith("__")
    ]
    return [*ours, *REFUSED.get(ray_module, ())]


def _listed(module_name: str, names: Sequence[str]) -> Sequence[str]:
    if names != ("*",):
        return names
    module = importlib.import_module(module_name)
    listed: Sequence[str] | None = getattr(module, "__all__", None)
    return [name for name in vars(module) if name[0] != "_"] if listed is None else listed


def _is_gathered(name: str) -> bool:
    """Whether this is one of Ray's modules that we put together."""
    return name in SOME_NAMES or name in REFUSED


def _is_of_libraries(name: str) -> bool:
    libraries = _libraries()
    return libraries is not None and libraries.spec(name) is not None


def _refusing(name: str) -> type:
    """A class, so that programs can derive from it and test for it, that refuses to be called."""

    def refuse(cls: type, *args: object, **kwargs: object) -> None:
        raise NotImplementedError(_refusal(name))

    return type(name.rpartition(".")[2], (), {"__new__": refuse, "__doc__": _refusal(name)})


def _refusal(name: str) -> str:
    if _libraries() is None and is_of_library(name):
        return (
            f"Phalanx has no {name} of its own. Ray's is taken from an installed ray with "
            "`python -m phalanx.compat.ray --libraries`, or by "
            "`phalanx.compat.ray.install(libraries=True)` before the first `import ray`"
        )
    return f"Phalanx has no {name}: this part of Ray's interface is not offered"


class _Finder(MetaPathFinder):
    """Finds every module named ray or ray.something: ours, one of the libraries', or a refusal."""

    libraries: InstalledRay | None = None

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: types.ModuleType | None = None,
    ) -> ModuleSpec | None:
        if fullname != "ray" and not fullname.startswith("ray."):
            return None
        if fullname in SAME_MODULE:
            return ModuleSpec(fullname, _SameModule(SAME_MODULE[fullname]))
        if self.libraries is not None and (spec := self.libraries.spec(fullname)) is not None:
            return spec
        if _is_gathered(fullname):
            return ModuleSpec(fullname, _Gathering(), is_package=True)
        # Without a name, so that `from ray import x` shows this text and not one of its own.
        raise ModuleNotFoundError(_refusal(fullname))


class _Gathering(Loader):
    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        return _Gathered(spec.name, f"Phalanx under the name {spec.name}.")

    def exec_module(self, module: types.ModuleType) -> None:
        module.__class__ = _Gathered  # importlib's LazyLoader has put a plain module's in its place
        module.__dict__["__all__"] = _public_names(module.__name__)
        if module.__name__ == "ray":
            libraries = _libraries()
            module.__dict__["__version__"] = libraries.version if libraries else RAY_VERSION
            if libraries is not None:
                importlib.import_module("phalanx.adapters.ray.modules.log").configure()
            module.__dict__["__commit__"] = RAY_COMMIT


class _SameModule(Loader):
    """Gives the module itself, and puts back the spec that the import system writes over."""

    def __init__(self, name: str) -> None:
        self._name = name

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        try:
            module = importlib.import_module(self._name)
        except ModuleNotFoundError as missing:
            raise ModuleNotFoundError(_refusal(spec.name)) from missing
        self._spec = module.__spec__
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        module.__spec__ = self._spec


def run_script(path: str, arguments: Sequence[str], *, libraries: bool | None = None) -> None:
    """Run the Python file as `__main__`, with Ray's names, as `python path arguments...` would."""
    install(libraries=libraries)
    # A module of its own that stays: what the script defines is pickled by value, and threads and
    # exit handlers of the script still find their globals at the very end.
    main = types.ModuleType("__main__")
    main.__file__ = path
    os.environ[PROGRAM] = str(Path(path).resolve())
    main.__spec__ = ModuleSpec(
        "phalanx.adapters.ray.spawned_main", None
    )  # what spawned processes import
    sys.modules["__main__"] = main
    sys.argv = [path, *arguments]
    sys.path.insert(0, str(Path(path).resolve().parent))
    code = compile(Path(path).read_bytes(), path, "exec")
    exec(code, main.__dict__)
