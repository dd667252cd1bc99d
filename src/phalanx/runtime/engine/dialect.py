"""A dialect: the names and rules of another system, under which an unchanged program runs.

An adapter offers its dialect in the entry point group `phalanx.dialects`. If PHALANX_DIALECT has
the dialect's name, the dialect applies to the process and to every process that it starts.
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
    """An adapter's decisions about a program that uses another system's names."""

    name: str
    hidden_methods: frozenset[str]
    """Methods of Phalanx's classes that the other system lacks. `dir` leaves them out."""
    not_running: str
    """The message of the error for a call before `init`. Programs look for its words."""
    left_out_labels: tuple[str, ...]
    """Prefixes of labels. Under this dialect, a node does not get the automatic labels that begin
    with one of them.
    """
    limits_gpu_memory: bool
    """Whether work with a share of a GPU (`num_gpus` below 1) may use only that share of its
    memory.
    """
    backend_of_joblib: str
    """The name by which programs ask joblib for Phalanx's backend."""

    def installation(self) -> Callable[[], None]:
        """Return the function that each worker of the program runs when it starts."""
        ...

    def preloaded(self) -> tuple[str, ...]:
        """Return the names of modules that are imported before workers are forked."""
        ...

    def global_worker(self) -> Any:
        """Return the object by which the other system's libraries know their process."""
        ...

    def address(self) -> str | None:
        """Return the cluster's address from the variables of the other system; None if no variable
        gives it.
        """
        ...

    def person_token(self) -> str:
        """Return the token of a person from the variables of the other system; "" if no variable
        gives it. Raises AuthenticationError if the variables name a token that does not exist.
        """
        ...

    def overrides(self, what: str) -> dict[str, Any]:
        """Return the resources or labels that the dialect sets in place of those of the program.
        `what`: "resources" or "labels". Raises ValueError.
        """
        ...

    def settings(self) -> Mapping[str, str]:
        """Return the environment in which the other system's settings are looked up."""
        ...

    def settings_of(self, variables: Mapping[str, str]) -> dict[str, str]:
        """Return those variables of a program that the other system's libraries read when they are
        imported.
        """
        ...

    def max_retries(self) -> int | None:
        """Return the number of retries of a task whose options give none; None stands for Phalanx's
        default.
        """
        ...

    def without_client(self, address: str | None) -> str | None:
        """Return the address of the cluster behind a client server's address. Any other address is
        returned as it is.

        The cluster may be on this machine, or a remote one on which the program's driver will run.
        """
        ...


def current() -> Dialect | None:
    """Return the dialect of this process; None if it has none."""
    name = os.environ.get(VARIABLE)
    return _load(name) if name else None


def first() -> Dialect | None:
    """Return the dialect of this process or, if it has none, the first installed dialect."""
    offered = [entry.name for entry in entry_points.own(GROUP)]
    return current() or (_load(offered[0]) if offered else None)


@cache
def _load(name: str) -> Dialect:
    entry = entry_points.find(GROUP, name)
    if entry is None:
        raise RuntimeError(f"{VARIABLE}={name!r} names no installed dialect.")
    found: Dialect = entry.load()
    return found
