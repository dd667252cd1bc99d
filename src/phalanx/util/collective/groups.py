"""The known backends, and the groups that this process is in."""

from __future__ import annotations

import os
import threading

from phalanx.api.runtime_context import get_runtime_context
from phalanx.util.collective import rendezvous
from phalanx.util.collective.base_group import BaseGroup
from phalanx.util.collective.gloo import TIMEOUT_MS, GlooGroup
from phalanx.util.collective.types import Backend

_backends: dict[str, type[BaseGroup]] = {Backend.GLOO: GlooGroup}
_groups: dict[str, BaseGroup] = {}
_locks: dict[str, threading.RLock] = {}


def _lock_of(name: str) -> threading.RLock:
    """Return the lock of one group.

    Each group has its own, because joining one waits for other members and must not delay other
    groups.
    """
    return _locks.setdefault(name, threading.RLock())


def register_collective_backend(name: str, group_cls: type[BaseGroup]) -> None:
    """Register a class for the groups of a backend in this process.

    Raises TypeError for a class that does not derive from BaseGroup, and ValueError for a name that
    is taken.

    Example:
        collective.register_collective_backend("MPI", MpiGroup)
    """
    upper = name.upper()
    if not (isinstance(group_cls, type) and issubclass(group_cls, BaseGroup)):
        raise TypeError(f"{group_cls} is not a subclass of BaseGroup")
    if upper in _backends:
        raise ValueError(f"Backend {upper} already registered")
    _backends[upper] = group_cls
    if not hasattr(Backend, upper):
        setattr(Backend, upper, upper)


def is_backend_available(backend: str) -> bool:
    """Whether a backend is known here and the packages that it needs are installed."""
    found = _backends.get(backend.upper())
    return found is not None and found.check_backend_availability()


def check_backend(backend: str) -> None:
    """Raise RuntimeError for a backend that is not available."""
    if is_backend_available(backend):
        return
    upper = backend.upper()
    needs = {
        Backend.GLOO: "It needs torch (pip install torch).",
        Backend.NCCL: "Phalanx has no NCCL groups: use torch.distributed, or GLOO.",
    }.get(upper, f"register_collective_backend('{upper}', YourGroup) registers a backend.")
    raise RuntimeError(f"Backend {upper} is not available. {needs}")


def join(backend: str, world_size: int, rank: int, name: str, timeout_ms: int) -> BaseGroup:
    """Join this group. Returns it when all members have joined.

    Raises RuntimeError when this process is in the group already, or the backend is not available.
    """
    with _lock_of(name):
        if name in _groups:
            raise RuntimeError("Trying to initialize a group a second time.")
        check_backend(backend)
        cls = _backends[backend.upper()]
        made = (
            cls(world_size, rank, name, timeout_ms)
            if issubclass(cls, GlooGroup)
            else cls(world_size, rank, name)
        )
        _groups[name] = made
        return made


def leave(name: str) -> None:
    """Leave the group. Does nothing when this process is not in it."""
    with _lock_of(name):
        group = _groups.pop(name, None)
    if group is not None:
        group.destroy_group()
        rendezvous.drop("declared", name)


def known(name: str) -> BaseGroup | None:
    """Return the group if this process is in it; else None."""
    return _groups.get(name)


def group_of(name: str) -> BaseGroup:
    """Return the group. If the group was declared, for this actor or by environment variables, this
    process joins it first.

    Raises RuntimeError if this process is not in the group.
    """
    with _lock_of(name):
        found = _groups.get(name)
        if found is not None:
            return found
        declared = rendezvous.find("declared", name)
        actor = get_runtime_context().get_actor_id()
        if declared is not None and actor in declared["ranks"]:
            return join(
                declared["backend"],
                declared["world_size"],
                declared["ranks"][actor],
                name,
                declared["timeout_ms"],
            )
        env = os.environ
        if env.get("collective_group_name") == name:
            return join(
                env["collective_backend"],
                int(env["collective_world_size"]),
                int(env["collective_rank"]),
                name,
                int(env.get("collective_gloo_timeout", TIMEOUT_MS)),
            )
    raise RuntimeError(f"The collective group '{name}' is not initialized in the process.")


def declare(
    name: str, actors: list[str], ranks: list[int], world_size: int, backend: str, timeout_ms: int
) -> None:
    """Declare a group of these actors (by id): each joins at its first use of the group.

    Raises RuntimeError for a name that is declared already.
    """
    if rendezvous.find("declared", name) is not None:
        raise RuntimeError("Trying to initialize a group twice.")
    value = {
        "ranks": dict(zip(actors, ranks, strict=True)),
        "world_size": world_size,
        "backend": backend,
        "timeout_ms": timeout_ms,
    }
    rendezvous.put("declared", name, value)
