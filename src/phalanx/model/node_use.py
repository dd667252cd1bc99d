"""The usage of a node over time, and its processes."""

from __future__ import annotations

import msgspec

from phalanx.model.rows.row import Row

Points = list[tuple[float, float]]
"""A quantity over time: (seconds ago, mean value from then on) pairs, the oldest first."""
MEMBER, DRIVER, WORKER = "member", "driver", "worker"
"""The kinds of processes of a node."""


class NumberOfNode(Row, frozen=True):
    """A quantity of a node over time."""

    what: str
    """The kind of the quantity: total, allocated or used."""
    of: str
    """The resource: CPU, memory (in bytes) or GPU."""
    points: Points


class ProcessOfNode(Row, frozen=True):
    """A member of a job, a driver or a worker that runs on a node."""

    kind: str
    """MEMBER, DRIVER or WORKER."""
    name: str
    """The name of the member, or the work for which the worker is used. In the head's answer, the
    worker of an actor is named by the actor's class and, after a space, the actor's name if it has
    one.
    """
    pid: int
    """The process id; 0 for a member whose commands have not begun."""
    age_s: float
    """Seconds since the process began."""
    job: str = ""
    """NAMESPACE/NAME of the member's job."""
    cpus: float | None = None
    """The number of CPUs that the process lately kept busy; None if not measured."""
    memory: float | None = None
    """The bytes of memory that the process lately used; None if not measured."""
    actor: str = ""
    """For the worker of an actor: the actor's id in hex."""


class NodeUse(Row, frozen=True):
    """The usage of a node over time, and the processes that run on it now."""

    numbers: list[NumberOfNode] = msgspec.field(default_factory=list)
    processes: list[ProcessOfNode] = msgspec.field(default_factory=list)
