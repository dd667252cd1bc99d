"""Claims room for waiting gangs on nodes where drivers' ordinary tasks run.

A worker takes one task after another while its owner has tasks, so a gang could wait for ever. This
module finds gangs that the scheduler would place if such workers yielded, and tells each node how
much these gangs would take there. The node decides by its own order of priorities and queues
whether these gangs come first. If they do, the node lets the running tasks end, and starts no
others in the room that it keeps (`node.leases`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from phalanx.head.clock import Clock
from phalanx.head.gangs.gang import Gang
from phalanx.head.gangs.outside_work import OutsideWork
from phalanx.head.nodes.directory import NodeDirectory
from phalanx.head.outbox import Outbox
from phalanx.manifests.quantities import batch_amounts
from phalanx.model.ids import GangId
from phalanx.protocol.bundle_messages import ClaimRoom
from phalanx.scheduler.cycle.cluster import Cluster
from phalanx.scheduler.cycle.cycle import run_cycle
from phalanx.scheduler.cycle.specs import Snapshot
from phalanx.scheduler.devices.sets import EMPTY, ResourceSet

LOOK_EVERY_S, PAUSE = 0.25, 10.0
"""The time between two searches for claims: at least LOOK_EVERY_S seconds, and at least PAUSE times
as long as the last search took.
"""
KEPT = 4.0
"""The number of pauses between searches after which a node drops a claim that was not repeated."""
NEVER = float("inf")


class RoomClaims:
    """The room that nodes keep for waiting gangs at the head's request."""

    def __init__(
        self,
        outbox: Outbox,
        clock: Clock,
        nodes: NodeDirectory,
        outside_work: OutsideWork,
        member_of: Mapping[str, tuple[Gang, int]],
        truth: Callable[[], Snapshot],
    ) -> None:
        """`truth` returns a snapshot of everything that a cycle considers now."""
        self._outbox = outbox
        self._clock = clock
        self._nodes = nodes
        self._outside_work = outside_work
        self._member_of = member_of
        self._truth = truth
        self._next = 0.0
        self._pause_s = LOOK_EVERY_S
        self._claimed: set[tuple[GangId, str]] = set()
        """The claims that nodes were last asked to honour, by gang and node."""

    def look(self, now: float) -> float:
        """Ask nodes to keep the room that waiting gangs would get. Returns the time of the next
        search.
        """
        yields = {r.node_id: self._nodes.yields(r.node_id) for r in self._nodes.living()}
        if not any(yields.values()):
            self.drop()
            return NEVER
        begun = self._clock.now()
        if begun >= self._next:
            wanted = self._choose(yields)
            done = self._clock.now()
            self._pause_s = max(LOOK_EVERY_S, PAUSE * (done - begun))
            self._next = done + self._pause_s
            self._claim(wanted)
        return now + LOOK_EVERY_S if self._claimed else NEVER

    def drop(self) -> None:
        """Withdraw all claims, because no gang is waiting any more."""
        if self._claimed:
            self._claim({})

    def _choose(
        self, yields: Mapping[str, Mapping[str, float]]
    ) -> dict[tuple[GangId, str], tuple[Gang, ResourceSet]]:
        """Return what each gang would take on each node if all ordinary tasks yielded and no gang
        did.
        """
        truth = self._truth()
        config = msgspec.structs.replace(truth.config, actions=("allocate",))
        snapshot = msgspec.structs.replace(truth, config=config)
        cluster = Cluster(snapshot)
        for node, yielded in yields.items():
            given = dict(batch_amounts(dict(yielded)))
            taken = self._outside_work.taken(node)
            left = ((name, amount - given.get(name, 0.0)) for name, amount in taken)
            cluster.occupy(node, tuple((name, amount) for name, amount in left if amount > 0))
        plan = run_cycle(snapshot, cluster=cluster, explains=False)
        wanted: dict[tuple[GangId, str], tuple[Gang, ResourceSet]] = {}
        for task, node in plan.binds.items():
            gang, index = self._member_of[task]
            need = ResourceSet.from_mapping(gang.members[index].need)
            before = wanted.get((gang.gang_id, node), (gang, EMPTY))[1]
            wanted[gang.gang_id, node] = (gang, before + need)
        return wanted

    def _claim(self, wanted: Mapping[tuple[GangId, str], tuple[Gang, ResourceSet]]) -> None:
        for gang_id, node in sorted(self._claimed - wanted.keys()):
            self._outbox.send_node(node, ClaimRoom(gang_id, {}))
        for (gang_id, node), (gang, needs) in wanted.items():
            kept_s = KEPT * self._pause_s
            claim = ClaimRoom(gang_id, needs.to_mapping(), gang.queue, gang.priority, kept_s)
            self._outbox.send_node(node, claim)
        self._claimed = set(wanted)
