"""Gives a process its engine: the runtime, or an engine that an adapter offers.

An adapter offers an engine in the entry point group `phalanx.engines`: a module with the functions
of `EngineEntry`. No engine is imported before a program asks for it.
"""

from __future__ import annotations

import sys
from typing import Protocol, TypeVar

from phalanx.protocol.requests.request import Request
from phalanx.runtime.engine import entry_points
from phalanx.runtime.engine.interface import Engine, EngineOptions, Output

R = TypeVar("R")

EMBEDDED = "embedded"
"""The name of Phalanx's own engine, the runtime."""
HOSTS = ("ray",)
"""Other systems whose workers may run a part of a program.

A worker of such a system has imported the module with this name. The engine that attaches to the
worker has the same name.
"""
GROUP = "phalanx.engines"


class EngineEntry(Protocol):
    """The functions of an engine's module, to which the engine's entry point refers."""

    def connect(self, options: EngineOptions, output: Output) -> Engine:
        """Connect to a cluster, or start one: see `start`."""
        ...

    def attach(self) -> Engine | None:
        """Return the engine of a worker that the host system has started; None in any other
        process.
        """
        ...

    def ask(self, address: str, request: Request[R], timeout_s: float) -> R:
        """Return the answer of the scheduler on a cluster. Raises ConnectionError."""
        ...

    def start_scheduler(self, address: str, options: dict[str, object]) -> str:
        """Start the scheduler on a cluster. Returns a sentence about the outcome."""
        ...

    def stop_scheduler(self, address: str) -> str:
        """End the scheduler on a cluster. Returns a sentence about the outcome."""
        ...


def names() -> tuple[str, ...]:
    """Return the names of all installed engines."""
    offered = [*entry_points.own(GROUP), *entry_points.others(GROUP)]
    return (EMBEDDED, *(entry.name for entry in offered))


def engine_of(address: str) -> str | None:
    """Return the engine that an address like `ray:auto` names; None for Phalanx's own addresses."""
    scheme, colon, _ = address.partition(":")
    # an address with a port belongs to no other engine
    is_name = bool(colon) and scheme.isidentifier()
    return scheme if is_name and entry_points.find(GROUP, scheme) is not None else None


def entry_of(name: str) -> EngineEntry:
    """Return the engine's entry. Raises ValueError for a name that no package offers."""
    found = entry_points.find(GROUP, name)
    if found is None:
        raise ValueError(f"There is no engine {name!r}; available: {', '.join(names())}.")
    entry: EngineEntry = found.load()
    return entry


def start(options: EngineOptions, output: Output) -> Engine:
    """Connect to a cluster, or start one.

    Raises ConnectionError or AuthenticationError if that is not possible, SystemFailureError,
    ImportError for an engine whose packages are not installed, and ValueError for options that
    contradict each other.
    """
    if options.engine == EMBEDDED:
        from phalanx.runtime.driver import starting

        return starting.start(options, output)
    return entry_of(options.engine).connect(options, output)


def is_hosted() -> str | None:
    """Return the system in whose worker this process may run; None in any other process."""
    for name in HOSTS:
        module = sys.modules.get(name)
        # A module of that name without a file is the replacement that Phalanx's dialect installs.
        if module is not None and module.__name__ == name and getattr(module, "__file__", None):
            return name
    return None


def attach() -> Engine | None:
    """Return the engine of a worker that another system has started; None in any other process."""
    host = is_hosted()
    return None if host is None else entry_of(host).attach()
