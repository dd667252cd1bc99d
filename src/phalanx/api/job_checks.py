"""Checks of the fields of a `Job` by the rules that the head has for jobs.

A job that these checks accept is one that the head accepts. The head's own checks are not used
here, because their modules take as long to import as all other modules that a submission needs.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from phalanx.model.jobs.timing import LONGEST_S, Timing
from phalanx.model.options import LARGEST_AMOUNT, LARGEST_NUMBER, names_variables


def refused(name: str, value: Any, allowed: str) -> ValueError:
    """Return the error for a field whose value is not allowed."""
    return ValueError(f"Job: {name}={value!r}: it must be {allowed}.")


def wrong_type(name: str, value: Any, allowed: str) -> TypeError:
    """Return the error for a field whose value has a wrong type."""
    return TypeError(f"Job: {name}={value!r}: it must be {allowed}.")


def check_whole(name: str, value: Any, minimum: float = -math.inf) -> None:
    """Raise an error unless the value is a whole number of at least `minimum`."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong_type(name, value, "a whole number")
    if value < minimum:
        raise refused(name, value, f"a whole number of at least {minimum}")
    if abs(value) > LARGEST_NUMBER:
        raise refused(name, value, f"at most {LARGEST_NUMBER}")


def check_number(name: str, value: Any, largest: float = LONGEST_S) -> None:
    """Raise an error unless the value is a number from 0 to `largest`."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise wrong_type(name, value, "a number")
    if not 0 <= value <= largest:
        raise refused(name, value, f"a number from 0 to {largest:g}")


def check_limits(time_limit_s: Any, memory: Any, memory_limit: Any) -> None:
    """Raise ValueError for a time limit that is not above 0, or for a memory limit that is below
    `memory`.
    """
    if time_limit_s is not None:
        check_number("time_limit_s", time_limit_s)
        if not time_limit_s:
            raise refused("time_limit_s", time_limit_s, "a number above 0")
    if memory_limit is None:
        return
    check_number("memory_limit", memory_limit, LARGEST_AMOUNT)
    if isinstance(memory, int | float) and memory > memory_limit:
        raise ValueError(f"Job: memory={memory:.0f} is above memory_limit={memory_limit:.0f}.")


def check_timing(given: Mapping[str, Any], timing: Timing) -> None:
    """Raise ValueError if `timing`, the times of a job, breaks a rule. `given`: the fields of the
    job as the user wrote them, which the error quotes.
    """
    from phalanx.manifests.timing import timing_faults

    for fault in timing_faults(timing):
        field = str(fault.path[-1])
        raise ValueError(f"Job: {field}={given[field]!r}: {fault.reason}.")


def check_reservation(name: Any) -> None:
    """Check the name of a reservation, which may be None."""
    from phalanx.manifests.names import free_fault

    if not isinstance(name or "", str):
        raise wrong_type("reservation", name, "text")
    if fault := free_fault("reservation", name or ""):
        raise ValueError(f"Job: {fault}.")


def check_directory(path: Any) -> None:
    """Check the directory in which members run."""
    if not isinstance(path, str | os.PathLike):
        raise wrong_type("working_dir", path, "a path")


def check_variables(env: Any) -> None:
    """Check the environment variables of the members, which may be None."""
    if env is None:
        return
    if not isinstance(env, Mapping):
        raise wrong_type("env", env, "a mapping")
    if not all(isinstance(text, str) for pair in env.items() for text in pair):
        raise wrong_type("env", env, "a mapping from text to text")
    if not names_variables(env):
        raise refused("env", env, "a mapping whose names are not empty and have no '='")


def check_plugins(plugins: Any, groups: Iterable[str]) -> None:
    """Check Volcano's plugins with their arguments, which may be None."""
    if plugins is None:
        return
    from phalanx.manifests.plugins import first_fault

    if not isinstance(plugins, Mapping):
        raise wrong_type("plugins", plugins, "a mapping")
    for name, arguments in plugins.items():
        are_texts = isinstance(arguments, Sequence) and all(isinstance(a, str) for a in arguments)
        if not isinstance(name, str) or not are_texts:
            raise wrong_type("plugins", plugins, "a mapping from names to lists of texts")
    found = tuple((name, tuple(arguments)) for name, arguments in plugins.items())
    if fault := first_fault(found, tuple(groups)):
        raise ValueError(f"Job: plugins={plugins!r}: {fault}.")
