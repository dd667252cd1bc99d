"""The environment of processes that an engine starts."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping

ADDED = "PHALANX_ADDED_PATH"
"""The variable with the entry that was added in front of PYTHONPATH for Phalanx's own processes.
Programs of users get neither.
"""

LIMITED = "PHALANX_LIMITED_THREADS"
"""The variable with the names of the variables that were added to limit numeric libraries to one
thread in Phalanx's own processes.
"""

_UNKNOWN = re.compile(r"\$\{\w+\}")


def child_environment() -> dict[str, str]:
    """Return this process's environment for a child process of Phalanx.

    The environment limits numeric libraries to one thread, and has this package in PYTHONPATH.
    """
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
    """Return these variables without Phalanx's own path, for programs of users.

    Such a program may run under another Python, which could not use the packages next to this one.
    """
    found = dict(variables)
    added, path = found.pop(ADDED, None), found.get("PYTHONPATH", "")
    first, _, rest = path.partition(os.pathsep)
    if added is not None and first == added:
        found["PYTHONPATH"] = rest
        if not rest:
            del found["PYTHONPATH"]
    return found


def leave_our_path() -> None:
    """Remove Phalanx's own path from this process, because the process will run code of users."""
    left = without_our_path(os.environ)
    for name in [name for name in os.environ if name not in left]:
        del os.environ[name]
    os.environ.update(left)


def leave_our_limits() -> None:
    """Remove Phalanx's limits on threads from this process.

    Numeric libraries that are loaded later use as many threads as the user says or, without that,
    as many as their work has CPUs.
    """
    for name in os.environ.pop(LIMITED, "").split():
        os.environ.pop(name, None)


def existing_directory() -> str:
    """Return this process's current directory, in which its workers start. If it was removed,
    return the root directory.

    Some libraries end their process when they load parts from a removed directory.
    """
    try:
        return os.getcwd()
    except FileNotFoundError:
        return os.sep


def python_version() -> str:
    """Return the version of Python, such as 3.11. Pickles may not work across versions."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def expanded(value: str) -> str:
    """Return a value with `$NAME` and `${NAME}` replaced by this process's variables.

    If a variable is not set, `${NAME}` becomes empty and `$NAME` stays, as on Ray.
    """
    return _UNKNOWN.sub("", os.path.expandvars(value))
