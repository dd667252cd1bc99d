"""The scheduler's view of a simulated cluster: machines and queues, and jobs as podgroups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from phalanx.head.gangs.gang import Gang
from phalanx.head.gangs.podgroups import PodGroups
from phalanx.scheduler.cycle.specs import (
    Amounts,
    HyperNodeSpec,
    LicenseSpec,
    NodeSpec,
    PodGroupSpec,
    QueueSpec,
    ReservationSpec,
    Shape,
)
from phalanx.scheduler.plugin_parts.quota_tree import ROOT
from phalanx_research.timed.progress import Work
from phalanx_research.timed.workload import KeptApart, Rules


def with_root(queues: Sequence[QueueSpec]) -> tuple[QueueSpec, ...]:
    """Return the queues with the queue `root` among them, which every cluster has."""
    has_root = any(queue.name == ROOT for queue in queues)
    return tuple(queues) if has_root else (QueueSpec(name=ROOT), *queues)


class SimulatedCluster(PodGroups):
    """The `ClusterSource` and `GangSpecs` of a simulation. It adds facts to a gang's podgroup that
    only a simulation knows: the user, how long the job will run and has run, and the job's turn.
    """

    def __init__(
        self,
        machines: Sequence[NodeSpec],
        queues: Sequence[QueueSpec],
        rules: Rules,
        kept: KeptApart,
    ) -> None:
        super().__init__()
        self._kept = kept
        self._machines = machines
        self._queues = with_root(queues)
        self._pays_starts = rules.overhead == "start"
        self.works: dict[bytes, Work] = {}
        """Submitted and unfinished jobs, by the id of their gang."""

    def nodes(self) -> Iterable[NodeSpec]:
        return self._machines

    def queues(self) -> Iterable[QueueSpec]:
        return self._queues

    def hypernodes(self) -> tuple[HyperNodeSpec, ...]:
        """Return an empty list, since there are no hypernodes."""
        return ()

    def taken_changes(self) -> Mapping[str, Amounts]:
        """Return no changes, since nothing runs outside of gangs."""
        return {}

    def reservations(self, wall: float) -> tuple[ReservationSpec, ...]:
        return self._kept.reservations

    def licenses(self) -> tuple[LicenseSpec, ...]:
        return self._kept.licenses

    def podgroup(self, gang: Gang) -> PodGroupSpec:
        """Return the podgroup of a gang."""
        work = self.works[gang.gang_id]
        if work.since is None:
            started, ran_s = None, work.ran
            unpaid_s = work.job.overhead_s if self._pays_starts else 0.0
        else:
            started = max(run.since for run in work.runs)
            ran_s = work.ran + started - work.since
            unpaid_s = max(run.unpaid for run in work.runs)
        return msgspec.structs.replace(
            super().podgroup(gang),
            user=work.job.user,
            run_time_s=work.longest() + unpaid_s,
            started=started,
            ran_s=ran_s,
            turn=work.turn,
            reservation=work.job.reservation,
            licenses=work.job.licenses,
            annotations=work.job.annotations,
        )

    def shape(self, gang: Gang, index: int) -> Shape:
        """Return the request of one task."""
        return self.works[gang.gang_id].shapes[index]
