"""Phalanx under Ray's module names, so that an unchanged Ray program runs.

Call `install()` before the program imports ray, or run `python -m phalanx.compat.ray script.py`.
With `libraries=True` (`--libraries`), Tune, Train and Data come from an installed ray
(`libraries`). All of Ray's names that Phalanx supports are present. Some other names, which
programs import at their top, can be imported but raise an error when they are called. All other
names raise an ImportError or AttributeError that says that Phalanx lacks the name.
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
"""An environment variable. With the value 1, `install(None)` also installs Ray's libraries."""

PROGRAM = "PHALANX_COMPAT_RAY_PROGRAM"
"""An environment variable with the path of the program that runs under Ray's names. Processes that
this program spawns read it.
"""

RAY_VERSION = "2.60.0"
"""The version of Ray whose interface Phalanx follows; programs read it as `ray.__version__`."""
RAY_COMMIT = "phalanx"
"""The value of `ray.__commit__`, and of the commit in the job API's answers. It is not a commit of
Ray.
"""


def install(*, libraries: bool | None = None) -> None:
    """Make Phalanx importable under Ray's module names, in this process and in its workers. With
    `libraries`, the packages of Tune, Train, Data and AIR come from the installed ray, and run on
    Phalanx's core. With None, the environment variable PHALANX_COMPAT_RAY_LIBRARIES decides. Raises
    RuntimeError when ray itself is already imported, because its modules cannot be replaced, and
    LibrariesUnavailableError when the libraries are requested but not available.
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
    """Return the function with which a worker of this program installs the same names and libraries
    at its start.
    """
    return partial(install, libraries=_libraries() is not None)


def preloaded() -> tuple[str, ...]:
    """Return the modules that are imported in advance in the workers of a runtime that this program
    starts.
    """
    return () if _libraries() is None else ("phalanx.adapters.ray.worker_preload",)


def uninstall() -> None:
    """Remove Ray's names again. Modules keep the names that they have already imported."""
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
    """A module with one of Ray's module names. On first access to an attribute, it gets the
    attribute from Phalanx's modules.
    """

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
        # `ray.util.placement_group` is both a module and a function in it: the function has the
        # name.
        if isinstance(value, types.ModuleType) and name in self.__dict__.get("__all__", ()):
            inner = getattr(value, name, value)
            value = value if isinstance(inner, types.ModuleType) else inner
        super().__setattr__(name, value)

    def __reduce__(self) -> Any:
        # Functions of the program carry `ray` along as a global, and a worker has these names too.
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
    """Whether Phalanx composes the Ray module of this name from names of its own modules."""
    return name in SOME_NAMES or name in REFUSED


def _is_of_libraries(name: str) -> bool:
    libraries = _libraries()
    return libraries is not None and libraries.spec(name) is not None


def _refusing(name: str) -> type:
    """Return a class that programs can use as a base class and in `isinstance`, but that raises an
    error when it is called.
    """

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
    """An import finder for `ray` and `ray.*`. It returns Phalanx's modules or the modules of Ray's
    libraries, and refuses all others.
    """

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
        # The error has no name, so that `from ray import x` shows this text and not Python's own.
        raise ModuleNotFoundError(_refusal(fullname))


class _Gathering(Loader):
    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        return _Gathered(spec.name, f"Phalanx under the name {spec.name}.")

    def exec_module(self, module: types.ModuleType) -> None:
        # importlib's LazyLoader has replaced the module's class by that of a plain module
        module.__class__ = _Gathered
        module.__dict__["__all__"] = _public_names(module.__name__)
        if module.__name__ == "ray":
            libraries = _libraries()
            module.__dict__["__version__"] = libraries.version if libraries else RAY_VERSION
            if libraries is not None:
                importlib.import_module("phalanx.adapters.ray.modules.log").configure()
            module.__dict__["__commit__"] = RAY_COMMIT


class _SameModule(Loader):
    """A loader that returns the existing module, and restores the spec that the import system
    overwrites.
    """

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
    """Run a Python file as `__main__` under Ray's names, as `python path arguments...` would."""
    install(libraries=libraries)
    # The script gets a module of its own that stays: definitions of the script are pickled by
    # value, and the script's threads and exit handlers still find their globals at the very end.
    main = types.ModuleType("__main__")
    main.__file__ = path
    os.environ[PROGRAM] = str(Path(path).resolve())
    main.__spec__ = ModuleSpec(
        "phalanx.adapters.ray.spawned_main", None
    )  # the file that spawned processes import
    sys.modules["__main__"] = main
    sys.argv = [path, *arguments]
    sys.path.insert(0, str(Path(path).resolve().parent))
    code = compile(Path(path).read_bytes(), path, "exec")
    exec(code, main.__dict__)
