"""What the control store knows of each gang, and of each of its members."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from phalanx.batch.specs import Amounts, Labels, PodGroupSpec, Shape, TaskSpec
from phalanx.manifests.quantities import batch_amounts
from phalanx.model.jobs.topology import NetworkTopology

WAITING, PLACING, HELD, LEAVING, ENDING, DONE = range(6)
"""A member's states: it waits for a place, its node is being asked, it has its bundle, it gives
the bundle back and waits again, or gives it back for good, or is over."""
WORDS = ("pending", "starting", "running", "leaving", "ending", "ended")
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
    ports: list[int] = []
    devices: dict[int, dict[str, list[int]]] = {}
    started: float | None = None
    """When its minimum last began to run."""
    preempted: int = 0
    """How often members were evicted."""
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
        return f"{NAMESPACE}/{self.name}"

    def task(self, index: int) -> str:
        """The name of a member's task in scheduling."""
        return f"{NAMESPACE}/{self.name}-{index}"

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
        return all(state == DONE for state in self.states)

    @property
    def phase(self) -> str:
        """In Volcano's words for podgroups."""
        if self.is_over:
            return "completed"
        here = sum(state not in (WAITING, LEAVING, PLACING) for state in self.states)
        return "running" if here >= max(self.least, 1) else "pending"

    def podgroup(self) -> PodGroupSpec:
        """As scheduling sees it; members that are over need no place any more."""
        over = len(self.among(DONE))
        return PodGroupSpec(
            name=self.name,
            namespace=NAMESPACE,
            queue=self.queue,
            min_member=max(self.least - over, 0),
            priority=self.priority,
            topology=self.topology,
            created=self.created,
            started=self.started,
        )


class Shapes:
    """One shape for all members that ask for the same: every question about them is asked once."""

    def __init__(self) -> None:
        self._made: dict[tuple[Amounts, Labels], Shape] = {}

    def of(self, gang: Gang, index: int) -> Shape:
        """The shape of one member."""
        request = batch_amounts(gang.needs[index])
        key = (request, gang.selector)
        shape = self._made.get(key)
        if shape is None:
            shape = Shape(request=request, role=ROLE, selector=gang.selector, namespace=NAMESPACE)
            self._made[key] = shape
        return shape


def task_specs(gang: Gang, nodes: list[str], shapes: Shapes) -> Iterator[TaskSpec]:
    """A task for every member that wants, has or gives back a place; `nodes` by member."""
    for index, state in enumerate(gang.states):
        node = nodes[index] if state in HOLDING else ""
        if state == DONE or (state in (LEAVING, ENDING) and not node):
            continue  # its node is gone, and it is not to get another one
        phase = "Pending"
        if node:
            phase = "Releasing" if state == LEAVING else "Running"
        yield TaskSpec(
            name=f"{gang.name}-{index}",
            podgroup=gang.name,
            shape=shapes.of(gang, index),
            node=node,
            phase=phase,
            priority=gang.priority,
            created=gang.created,
            started=gang.started if node else None,
        )
