"""Finds Ray's libraries (Tune, Train, Data) in an installed `ray`, so that they run on Phalanx.

Only Python files of the packages and modules listed here are imported. These files use Ray's core
through its public interface, or through names for which Phalanx has a substitute. Ray's compiled
core is never loaded, and none of its processes starts.
"""

from __future__ import annotations

import importlib.metadata
import re
import warnings
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path

CHECKED = ((2, 56), (2, 60))
"""The oldest and the newest release whose libraries were run on Phalanx."""

LIBRARIES = ("ray.air", "ray.data", "ray.train", "ray.tune")

BESIDE = (
    "ray._common.constants",
    "ray._common.deprecation",
    "ray._common.filters",
    "ray._common.formatters",
    "ray._common.logging_constants",
    "ray._common.pydantic_compat",
    "ray._common.retry",
    "ray._common.serialization",
    "ray._private.accelerators",
    "ray._private.custom_types",
    "ray._private.dict",
    "ray._private.event",
    "ray._private.log",
    "ray._private.protobuf_compat",
    "ray._private.ray_constants",
    "ray._private.thirdparty",
    "ray.core",
    "ray.dashboard.modules.metrics",
    "ray.util.annotations",
    "ray.util.common",
    "ray.util.tpu",
    "ray.widgets",
)
"""Other modules of Ray that its libraries import, and that do not need Ray's compiled core."""


class LibrariesUnavailableError(ImportError):
    """Ray's libraries were requested, but no `ray` that has them is installed."""


@dataclass(frozen=True)
class InstalledRay:
    """The distribution `ray` that is installed here. It is examined without importing it."""

    version: str
    root: Path
    """The directory of the package `ray`."""

    def serves(self, name: str) -> bool:
        """Whether a module of this name may be imported from the distribution."""
        return is_of_library(name) or _is_in(name, BESIDE)

    def spec(self, name: str) -> ModuleSpec | None:
        """Return the import spec of the module with this name; None for a module that is not served
        or does not exist.
        """
        if not self.serves(name):
            return None
        path = self.root.joinpath(*name.split(".")[1:])
        module = path.with_name(f"{path.name}.py")
        if (package := path / "__init__.py").is_file():
            return spec_from_file_location(name, package, submodule_search_locations=[str(path)])
        if module.is_file():
            return spec_from_file_location(name, module)
        if path.is_dir():
            spec = ModuleSpec(name, None, is_package=True)
            spec.submodule_search_locations = [str(path)]
            return spec
        return None


def is_of_library(name: str) -> bool:
    """Whether the module with this name is one of the libraries, or a part of one."""
    return _is_in(name, LIBRARIES)


def _is_in(name: str, packages: tuple[str, ...]) -> bool:
    return any(name == one or name.startswith(f"{one}.") for one in packages)


def find_installed() -> InstalledRay:
    """Return the `ray` on this interpreter's path. Warns about a release newer than the releases of
    CHECKED. Raises LibrariesUnavailableError if no `ray` is installed, if it lacks the libraries,
    or if it is older than the releases of CHECKED.
    """
    oldest, newest = (".".join(map(str, release)) for release in CHECKED)
    try:
        distribution = importlib.metadata.distribution("ray")
    except importlib.metadata.PackageNotFoundError:
        raise LibrariesUnavailableError(
            "Ray's libraries come from an installed ray, but none is installed here: pip install "
            "'ray[tune,data,train]=={newest}.*'"
        ) from None
    version = distribution.version
    release = _release(version)
    if release < CHECKED[0]:
        raise LibrariesUnavailableError(
            f"the libraries of ray {version} do not run on Phalanx: install {oldest} to {newest}"
        )
    root = Path(str(distribution.locate_file("ray")))
    if not (root / "tune" / "__init__.py").is_file():
        raise LibrariesUnavailableError(
            f"ray {version} in {root} lacks its libraries: reinstall it"
        )
    if release > CHECKED[1]:
        warnings.warn(
            f"the libraries of ray {version} were not tried on Phalanx; versions {oldest} to "
            f"{newest} were",
            stacklevel=3,
        )
    return InstalledRay(version, root)


def _release(version: str) -> tuple[int, int]:
    numbers = re.match(r"(\d+)\.(\d+)", version)
    return (int(numbers[1]), int(numbers[2])) if numbers else (0, 0)
