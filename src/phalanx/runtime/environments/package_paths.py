"""The paths of uploaded packages on a node."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from typing import Any

from phalanx.model.environments import VARIABLE
from phalanx.model.packages import CONTENT, MARK, read_uri
from phalanx.runtime.environments.place import environments_directory


def local_paths(environment: Mapping[str, Any]) -> dict[str, Any]:
    """Return a runtime environment with paths of this node in place of the URIs of packages."""
    found = dict(environment)
    if found.get("working_dir"):
        found["working_dir"] = _path(found["working_dir"], is_module=False)
    if found.get("py_modules"):
        found["py_modules"] = [_path(one, is_module=True) for one in found["py_modules"]]
    return found


def _path(given: str, *, is_module: bool) -> str:
    if (package := read_uri(given)) is None:
        return given
    directory = os.environ.get(VARIABLE) or environments_directory()
    content = os.path.join(directory, package.sha256, CONTENT)
    return os.path.join(content, package.name) if is_module and package.name else content


def is_directory_of(directory: str, given: str | None) -> bool:
    """Whether a job on this node has unpacked the working directory `given`, the URI of a package,
    into `directory`.
    """
    package = read_uri(given)
    if package is None or not package.name:
        return False
    with contextlib.suppress(OSError), open(os.path.join(directory, MARK), "rb") as file:
        return file.read(200).strip() == package.name.encode()
    return False
