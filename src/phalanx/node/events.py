"""What this node records: tasks that its workers ran, and what passed between it and others."""

from __future__ import annotations

import os
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from phalanx.model.ids import PREFIX_BYTES
from phalanx.node.demands import Demand
from phalanx.node.lease import Lease
from phalanx.observe.cluster_events import (
    DemandQueued,
    Event,
    EventRing,
    Forwarded,
    LeaseLent,
    NodeChosen,
    ResultStored,
)
from phalanx.observe.task_journal import Run

if TYPE_CHECKING:
    from phalanx.engines.embedded.node.shell import NodeShell

_KEEP_RUNS = 40_000


class NodeEvents:
    """The latest of each."""

    def __init__(self, shell: NodeShell) -> None:
        self._shell = shell
        self.ring = EventRing()
        self.runs: deque[Run] = deque(maxlen=_KEEP_RUNS)
        """Finished tasks of workers' own, as their owners told them."""

    def record(self, kind: type[Event], **fields: Any) -> None:
        """It happened now, unless `at` is given."""
        fields.setdefault("at", time.time())
        self.ring.record(kind(node=self._shell.prefix.hex(), **fields))

    def queued(self, demand: Demand) -> None:
        """A process of this node wants workers that are not free."""
        if not self._shell.spilling.is_alone:
            place = demand.place.to_mapping()
            self.record(DemandQueued, **_named(demand), resources=place, count=demand.count)

    def asked(self, demand: Demand, node: bytes, count: int) -> None:
        """Another node is asked for workers."""
        if not demand.is_forwarded:
            demand.is_forwarded = True
            self.record(Forwarded, **_named(demand))
        self.record(NodeChosen, **_named(demand), chosen=node.hex(), count=count)

    def granted(self, lease: Lease) -> None:
        """A worker of this node goes to somebody."""
        if lease.demand.owner[:PREFIX_BYTES] != self._shell.prefix:
            self.record(LeaseLent, **_named(lease.demand), worker=lease.worker.worker_id.hex())

    def claimed(self, path: str, owner: bytes) -> None:
        """`owner` owns the object that another process wrote to the file at `path`."""
        if owner[:PREFIX_BYTES] == self._shell.prefix:
            return
        try:
            found = os.stat(path)
        except OSError:
            return  # it has gone to disk, or altogether
        name = os.path.basename(path)
        self.record(
            ResultStored, at=found.st_mtime, object=name, bytes=found.st_size, owner=owner.hex()
        )


def _named(demand: Demand) -> dict[str, Any]:
    return {"owner": demand.owner.hex(), "scheduling_class": demand.scheduling_class}
