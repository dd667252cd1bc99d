"""What the control store knows of each gang, and of each of its members."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from phalanx.batch.specs import Labels
from phalanx.model.jobs.topology import NetworkTopology

WAITING, PLACING, HELD, LEAVING, ENDING, DONE, ABSENT = range(7)
"""A member's states: it waits for a place, its node is being asked, it has its bundle, it gives
the bundle back and waits again, or gives it back for good, or is over; or nobody wants it (yet)."""
WORDS = ("pending", "starting", "running", "leaving", "ending", "ended", "absent")
HOLDING = (PLACING, HELD, LEAVING, ENDING)
ROLE = "worker"
NAMESPACE = "default"


class Gang(msgspec.Struct, kw_only=True, eq=False):
    """One gang of tasks or actors: a pinned placement group with a bundle a member.

    `needs` are in the names and units of leases. `created` is in seconds since the epoch.
    """

    group: bytes
    name: str
    queue: str
    priority: int
    least: int
    """So many members must run for any to run."""
    needs: list[dict[str, float]]
    creator: bytes
    created: float
    selector: Labels = ()
    topology: NetworkTopology | None = None
    port_count: int = 1
    grace_s: float = 0.0
    states: list[int] = []
    put_on: dict[int, str] = {}
    """The node that each member was given last: a bundle that is given back is there until it is
    free, and its group knows nothing of it any more."""
    namespace: str = NAMESPACE
    job: str = ""
    """The job whose commands its members are; else they are tasks or actors."""
    members: list[tuple[str, int]] = []
    """Of a job: the group and the index in it of each member."""
    attempts: list[int] = []
    """Of a job: which attempt of each member was started last."""
    was_on: dict[int, str] = {}
    """The last node of each member that ever had one: those that ended still count as ranks."""
    ports: list[int] = []
    devices: dict[int, dict[str, list[int]]] = {}
    started: float | None = None
    """When its minimum last began to run."""
    is_stranded: bool = False
    """Some members run, fewer than it needs, and the others find no room."""
    is_promised: bool = False
    """Evictions made room for it that it does not have yet."""
    preempted: int = 0
    """How often members were evicted."""
    kind_of_job: bytes = b""
    """What its job asks for, as far as scheduling reads it."""
    kind: bytes = b""
    """What it has in common with equal ones (`line`)."""
    retry_at: float = 0.0
    """A node refused it: it is left out until then, by the monotonic clock."""
    backoff_s: float = 0.0
    evict_late: list[int] = []
    """Members to be taken off as soon as their placing is settled."""

    @property
    def uid(self) -> str:
        """The name of its podgroup."""
        return f"{self.namespace}/{self.name}"

    def task(self, index: int) -> str:
        """The name of a member's task in scheduling."""
        if self.members:
            group, number = self.members[index]
            return f"{self.uid}-{group}-{number}"
        return f"{self.uid}-{index}"

    def tasks(self, indexes: Iterable[int]) -> list[str]:
        """The names of members' tasks."""
        return [self.task(index) for index in indexes]

    def among(self, *states: int) -> list[int]:
        """The members in any of these states."""
        return [index for index, state in enumerate(self.states) if state in states]

    def set(self, indexes: Iterable[int], state: int) -> None:
        """Move members to another state."""
        for index in indexes:
            self.states[index] = state

    @property
    def waits(self) -> bool:
        """Whether any member wants a place."""
        return WAITING in self.states

    @property
    def is_over(self) -> bool:
        """Whether nobody is left."""
        return all(state in (DONE, ABSENT) for state in self.states)

    @property
    def phase(self) -> str:
        """In Volcano's words for podgroups."""
        if self.is_over:
            return "completed"
        if self.is_stranded:
            return "unknown"
        here = sum(state in (HELD, ENDING, DONE) for state in self.states)
        return "running" if here >= max(self.least, 1) else "pending"
