"""Answers the requests of `phalanx status` and `phalanx health`: summaries of the head's tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from phalanx.head.actors.table import ActorTable
from phalanx.head.drivers import Drivers
from phalanx.head.effects import HeadEffects
from phalanx.head.groups.table import GroupTable
from phalanx.head.internal_errors import InternalErrors
from phalanx.head.metrics import HeadMetrics
from phalanx.head.nodes.directory import NodeDirectory
from phalanx.head.stranded import Stranded
from phalanx.model.holds import UNWELL, holds_text
from phalanx.model.rows.cluster import StatusInfo
from phalanx.observe.health import HeadReport
from phalanx.protocol.messages import PROTOCOL_VERSION
from phalanx.protocol.requests.cluster import GetHealth, GetStatus
from phalanx.protocol.requests.request import Asker, Entry

GangCounts = Callable[[], dict[str, int]]
"""Returns, for each state of gangs that StatusInfo names, the number of gangs."""
JobStates = Callable[[], dict[str, int]]
"""Returns the number of jobs that have not ended, by state."""


class Status:
    """Answers GetStatus requests."""

    def __init__(
        self,
        whereabouts: Callable[[], tuple[str, str, list[str]]],
        *,
        nodes: NodeDirectory,
        actors: ActorTable,
        groups: GroupTable,
        drivers: Drivers,
        gang_counts: GangCounts,
        job_states: JobStates,
        internal_errors: InternalErrors,
        stranded: Stranded,
        lost_nodes: Callable[[], list[str]],
        standbys: Sequence[str],
        mode: str,
    ) -> None:
        """`whereabouts` returns the address of the head, the address of its store ("" if it has
        none), and a sentence for each problem of the head. `lost_nodes` is
        NodeRecorder.lost_lately. `mode`: one of the modes of StatusInfo.
        """
        self._mode = mode
        self._whereabouts = whereabouts
        self._nodes = nodes
        self._actors = actors
        self._groups = groups
        self._drivers = drivers
        self._gang_counts = gang_counts
        self._job_states = job_states
        self._internal_errors = internal_errors
        self._stranded = stranded
        self._lost_nodes = lost_nodes
        self._standbys = standbys

    def entries(self) -> list[Entry]:
        """Return the requests that this object answers, each with its handler."""
        return [GetStatus.handled_by(self._get_status)]

    def _get_status(self, asker: Asker[StatusInfo], request: GetStatus) -> StatusInfo:
        address, store, troubles = self._whereabouts()
        return StatusInfo(
            address=address,
            store=store,
            nodes=[] if request.is_brief else self._nodes.rows(),
            actors=dict(Counter(actor.state for actor in self._actors.all())),
            groups=[] if request.is_brief else self._groups.table(),
            jobs=self._drivers.rows(),
            gangs={} if request.is_brief else self._gang_counts(),
            defects=dict(self._internal_errors.rows),
            troubles=troubles,
            stranded=self._stranded.amounts(),
            lost_nodes=self._lost_nodes(),
            standbys=list(self._standbys),
            booting=self._nodes.booting(),
            mode=self._mode,
            job_states={} if request.is_brief else self._job_states(),
        )


class Health:
    """Answers GetHealth requests."""

    def __init__(
        self,
        effects: HeadEffects,
        *,
        nodes: NodeDirectory,
        actors: ActorTable,
        gang_counts: GangCounts,
        metrics: HeadMetrics,
    ) -> None:
        self._clock = effects.clock
        self._event_log = effects.event_log
        self._nodes = nodes
        self._actors = actors
        self._gang_counts = gang_counts
        self._metrics = metrics
        self._began = self._clock.monotonic()

    def entries(self) -> list[Entry]:
        """Return the requests that this object answers, each with its handler."""
        return [GetHealth.handled_by(self._get_health)]

    def _get_health(self, asker: Asker[HeadReport], request: GetHealth) -> HeadReport:
        counts = self._gang_counts()
        return HeadReport(
            began=self._clock.wall() - (self._clock.monotonic() - self._began),
            protocol=PROTOCOL_VERSION,
            known={
                "nodes": len(self._nodes.living()),
                "gangs": sum(counts.get(state, 0) for state in ("running", "waiting")),
                "actors": len(self._actors.all()),
                "events": self._event_log.kept,
            },
            numbers=self._metrics.own(),
            held=self._unwell_nodes(),
        )

    def _unwell_nodes(self) -> list[str]:
        """Return one sentence with the reason for each living node that takes no new work because
        of its health.
        """
        return [
            f"{record.name or record.node_id[:8]} on {record.hostname} takes no new work: {why}"
            for record in self._nodes.living()
            if (why := holds_text({k: h for k, h in record.holds.items() if k in UNWELL}))
        ]
