"""Room for gangs that wait while drivers' ordinary tasks hold it: nodes are asked to keep it free.

A worker goes from task to task for as long as its owner has any, so a gang could wait for ever. For
gangs that the scheduler would place if such workers gave way, each node is told what they would
take there. It decides in its own order of priorities and queues whether they are due, lets the
tasks that run end, and begins no others in the room that is kept (`node.leases`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from phalanx.batch.cluster import Cluster
from phalanx.batch.cycle import run_cycle
from phalanx.batch.specs import Amounts, Snapshot
from phalanx.head.gangs.gang import Gang
from phalanx.manifests.quantities import batch_amounts
from phalanx.protocol.cluster_messages import ClaimRoom
from phalanx.resources.sets import EMPTY, ResourceSet

LOOK_EVERY_S, PAUSE = 0.25, 10.0
"""Between two looks lies at least the first, and so many times what the last one took."""
KEPT = 4.0
"""A node keeps room for so many times the pause, unless it is told again."""

Send = Callable[[str, ClaimRoom], None]


class Claims:
    """What nodes are asked to keep. `send` to a node by its id."""

    def __init__(
        self,
        send: Send,
        member_of: Mapping[str, tuple[Gang, int]],
        clock: Callable[[], float],
    ) -> None:
        self._send = send
        self._member_of = member_of
        self._clock = clock
        self._next = 0.0
        self._pause_s = LOOK_EVERY_S
        self._told: set[tuple[bytes, str]] = set()
        """(gang, node) of all that nodes were asked to keep the last time."""

    def look(
        self,
        truth: Callable[[], Snapshot],
        taken: Mapping[str, Amounts],
        yields: Mapping[str, Mapping[str, float]],
    ) -> bool:
        """Ask nodes to keep what gangs would get that wait. `taken`: what work outside of gangs
        takes of each node; `yields`: what of that ordinary tasks hold. Whether to look again
        within `LOOK_EVERY_S`."""
        if not any(yields.values()):
            self._tell({})
            return False
        begun = self._clock()
        if begun >= self._next:
            wanted = self._choose(truth(), taken, yields)
            done = self._clock()
            self._pause_s = max(LOOK_EVERY_S, PAUSE * (done - begun))
            self._next = done + self._pause_s
            self._tell(wanted)
        return bool(self._told)

    def drop(self) -> None:
        """Nobody waits any more."""
        self._tell({})

    def _choose(
        self,
        snapshot: Snapshot,
        taken: Mapping[str, Amounts],
        yields: Mapping[str, Mapping[str, float]],
    ) -> dict[tuple[bytes, str], tuple[Gang, ResourceSet]]:
        cluster = Cluster(snapshot)
        for node, amounts in taken.items():
            given = dict(batch_amounts(dict(yields.get(node, {}))))
            left = ((name, amount - given.get(name, 0.0)) for name, amount in amounts)
            cluster.occupy(node, tuple((name, amount) for name, amount in left if amount > 0))
        plan = run_cycle(snapshot, cluster=cluster, explains=False)
        wanted: dict[tuple[bytes, str], tuple[Gang, ResourceSet]] = {}
        for task, node in plan.binds.items():
            gang, index = self._member_of[task]
            need = ResourceSet.from_mapping(gang.needs[index])
            before = wanted.get((gang.group, node), (gang, EMPTY))[1]
            wanted[gang.group, node] = (gang, before + need)
        return wanted

    def _tell(self, wanted: Mapping[tuple[bytes, str], tuple[Gang, ResourceSet]]) -> None:
        for group, node in sorted(self._told - wanted.keys()):
            self._send(node, ClaimRoom(group, {}))
        for (group, node), (gang, needs) in wanted.items():
            kept_s = KEPT * self._pause_s
            claim = ClaimRoom(group, needs.to_mapping(), gang.queue, gang.priority, kept_s)
            self._send(node, claim)
        self._told = set(wanted)


def gentle(snapshot: Snapshot) -> Snapshot:
    """The same, decided without taking anything from other gangs."""
    config = msgspec.structs.replace(snapshot.config, actions=("allocate",))
    return msgspec.structs.replace(snapshot, config=config)
