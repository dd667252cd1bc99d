"""The environment of processes that an engine starts."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

ADDED = "PHALANX_ADDED_PATH"
"""What stands first in PYTHONPATH for processes of ours alone."""

LIMITED = "PHALANX_LIMITED_THREADS"
"""The variables that keep numeric libraries of processes of ours at one thread."""


def child_environment() -> dict[str, str]:
    """This process's environment, with one thread for each numeric library, and with this package
    on the path."""
    variables = without_our_path(os.environ)
    limits = [name for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS") if name not in variables]
    variables |= dict.fromkeys(limits, "1")
    if limits:
        variables[LIMITED] = " ".join(limits)
    here = os.path.abspath(__file__)
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(here))))
    path = variables.get("PYTHONPATH")
    variables["PYTHONPATH"] = root if not path else f"{root}{os.pathsep}{path}"
    variables[ADDED] = root
    return variables


def without_our_path(variables: Mapping[str, str]) -> dict[str, str]:
    """These variables as programs of others get them: what lies beside this package, as all that
    is installed with it, is not for a Python that may be another one."""
    found = dict(variables)
    added, path = found.pop(ADDED, None), found.get("PYTHONPATH", "")
    first, _, rest = path.partition(os.pathsep)
    if added is not None and first == added:
        found["PYTHONPATH"] = rest
        if not rest:
            del found["PYTHONPATH"]
    return found


def leave_our_path() -> None:
    """Have this process, which will run code of others, start programs without it."""
    left = without_our_path(os.environ)
    for name in [name for name in os.environ if name not in left]:
        del os.environ[name]
    os.environ.update(left)


def leave_our_limits() -> None:
    """Have numeric libraries that this process loads from now on use as many threads as the user
    says, or as its work has CPUs."""
    for name in os.environ.pop(LIMITED, "").split():
        os.environ.pop(name, None)


def existing_directory() -> str:
    """Where this process stands, and its workers start: the root where that was removed, as
    libraries end their process that load their parts from there."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return os.sep


def python_version() -> str:
    """3.11, for instance: what one pickles, another that differs here cannot run."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"
