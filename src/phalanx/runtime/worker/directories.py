"""The working directory and the modules of a worker, as its runtime environment names them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from phalanx.runtime.environments.package_paths import is_directory_of, local_paths
from phalanx.runtime.worker.py_modules import offer_modules


def use_directories(
    environment: Mapping[str, Any], drivers: str, warn: Callable[[str], None]
) -> bool:
    """Enter the working directory of a runtime environment, and make its modules importable.
    Returns whether there is a working directory that could be entered.

    `drivers`: the directory of the driver. If the working directory is that directory, as for a
    driver that runs as a job, tasks on the driver's node use the directory itself. Other tasks have
    a copy of the uploaded files. `warn` gets a text about each thing that is missing. Work that
    does not need the missing thing can still run.
    """
    paths = local_paths(environment)
    directory, has_entered = paths.get("working_dir"), False
    if directory:
        if is_directory_of(drivers, environment["working_dir"]):
            directory = drivers
        has_entered = _enter(directory, warn)
        sys.path.insert(0, os.path.abspath(directory))
    if modules := paths.get("py_modules"):
        _use_modules(modules, warn)
    return has_entered


def _enter(directory: str, warn: Callable[[str], None]) -> bool:
    try:
        os.chdir(directory)
    except OSError as error:
        warn(f"working_dir {directory} cannot be entered on this node ({error.strerror})")
        return False
    return True


def _use_modules(modules: Sequence[str], warn: Callable[[str], None]) -> None:
    offer_modules(modules)
    for path in modules:
        if not os.path.exists(path):
            warn(f"{path} of py_modules does not exist on this node")
