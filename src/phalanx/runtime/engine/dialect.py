"""A dialect: the names and rules of another system, under which an unchanged program runs.

An adapter offers its dialect by the entry point group `phalanx.dialects`. It becomes the dialect of
a process, and of all that this process starts, when its name stands in PHALANX_DIALECT.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Protocol

from phalanx.runtime.engine import entry_points

VARIABLE = "PHALANX_DIALECT"
"""The environment variable that names the dialect of a program."""
GROUP = "phalanx.dialects"


class Dialect(Protocol):
    """What an adapter decides for a program that runs under its system's names."""

    name: str
    hidden_methods: frozenset[str]
    """Methods of our classes that the other system does not have; `dir` leaves them out."""
    not_running: str
    """The message of the error for a call before `init`; programs look for its words."""
    labels_of_system: tuple[str, ...]
    """Prefixes of labels that a node does not get by itself."""
    backend_of_joblib: str
    """The name under which programs ask joblib for our backend."""

    def installation(self) -> Callable[[], None]:
        """What each worker of the program runs when it starts."""
        ...

    def preloaded(self) -> tuple[str, ...]:
        """Modules that workers find imported."""
        ...

    def global_worker(self) -> Any:
        """The object by which the system's libraries know their process."""
        ...

    def address(self) -> str | None:
        """The address of a cluster that the environment gives in the system's own way."""
        ...

    def overrides(self, what: str) -> dict[str, Any]:
        """Resources or labels that stand above what the program says. Raises ValueError."""
        ...

    def settings(self) -> Mapping[str, str]:
        """The environment in which the system's settings are looked up."""
        ...

    def settings_of(self, variables: Mapping[str, str]) -> dict[str, str]:
        """Those of a program's variables that the system's libraries read at their import."""
        ...

    def max_retries(self) -> int | None:
        """How often a task is retried that says nothing about it; None: our default."""
        ...

    def without_client(self, address: str | None) -> str | None:
        """The address of a cluster, where `address` may name a client server of the system. Raises
        ConnectionError where no client server can be reached."""
        ...


def current() -> Dialect | None:
    """The dialect of this process, or None."""
    name = os.environ.get(VARIABLE)
    return _load(name) if name else None


def first() -> Dialect | None:
    """The dialect of this process; where it has none, the first one that is installed."""
    offered = [entry.name for entry in entry_points.own(GROUP)]
    return current() or (_load(offered[0]) if offered else None)


@cache
def _load(name: str) -> Dialect:
    entry = entry_points.find(GROUP, name)
    if entry is None:
        raise RuntimeError(f"{VARIABLE}={name!r} names no dialect that is installed.")
    found: Dialect = entry.load()
    return found
