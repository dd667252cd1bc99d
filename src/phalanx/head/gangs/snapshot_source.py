"""Snapshots of the head's nodes, queues and gangs, for decisions and for display."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from phalanx.head.clock import Clock
from phalanx.head.gangs.gang import Gang
from phalanx.head.gangs.outside_work import OutsideWork
from phalanx.head.gangs.scheduler_cache import NOT_RESTING, SchedulerCache
from phalanx.head.nodes.directory import NodeDirectory
from phalanx.head.shares.usage_ledger import UsageLedger
from phalanx.scheduler.cycle.cluster import Cluster
from phalanx.scheduler.cycle.kept import KeptCluster
from phalanx.scheduler.cycle.specs import Shape, Snapshot, TaskSpec
from phalanx.scheduler.forecast.holders import OTHERS
from phalanx.scheduler.plugin_parts.users import BOOKS


class SnapshotSource:
    """Makes all snapshots of one cluster."""

    def __init__(
        self,
        clock: Clock,
        cache: SchedulerCache,
        nodes: NodeDirectory,
        outside_work: OutsideWork,
        books: UsageLedger,
    ) -> None:
        self._clock = clock
        self._cache = cache
        self._nodes = nodes
        self._outside_work = outside_work
        self._books = books
        self.shells = {BOOKS: books}
        """Objects that the head lends to plugins when a decision is made on the columns that
        `columns` returns.
        """

    def truth(self) -> Snapshot:
        """Return the snapshot with which a cycle would start now."""
        return self._cache.truth(self._clock.now(), self._clock.wall())

    def patched_cluster(self) -> Cluster:
        """Return the columns that the next cycle uses."""
        return self._cache.cluster(self._clock.now(), self._clock.wall())

    def read_cluster(self) -> Cluster:
        """Return the columns that the next cycle uses, read again from their sources."""
        cluster = Cluster(self.truth())
        for record in self._nodes.living():
            cluster.occupy(record.node_id, self._outside_work.taken(record.node_id))
        return cluster

    def of(self, gangs: Iterable[Gang]) -> Snapshot:
        """Return everything that a cycle could read, with these gangs, and with the amounts that
        other work takes on nodes. Gangs that rest take part.
        """
        found = self._cache.snapshot(gangs, NOT_RESTING, self._clock.wall())
        queues = [
            msgspec.structs.replace(queue, users=self._books.specs(queue.name))
            for queue in found.queues
        ]
        tasks = (*found.tasks, *self._others())
        return msgspec.structs.replace(found, queues=tuple(queues), tasks=tasks)

    def columns(self, gang: Gang) -> tuple[Snapshot, KeptCluster] | None:
        """Return a snapshot and columns for one decision about this gang. This is much cheaper than
        `of` if much work runs.

        The columns have this gang and the gangs that cycles consider, also gangs that rest. The
        snapshot has only the rules, reservations and licenses. Returns None if the columns cannot
        be patched, so that everything must be read again.
        """
        return self._cache.columns_to_try(gang, self._clock.now(), self._clock.wall())

    def _others(self) -> Iterable[TaskSpec]:
        for record in self._nodes.living():
            amounts = self._outside_work.taken(record.node_id)
            if amounts:
                yield TaskSpec(
                    name=f"others-{record.node_id[:8]}",
                    podgroup="",
                    shape=Shape(request=amounts, namespace=OTHERS),
                    node=record.node_id,
                    phase="Running",
                    preemptable=False,
                )
