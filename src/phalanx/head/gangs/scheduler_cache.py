"""The scheduler's view of the cluster: kept from cycle to cycle, read anew after great changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from phalanx.batch.cluster import Cluster
from phalanx.batch.config import Configuration
from phalanx.batch.cycle import run_cycle
from phalanx.batch.kept import KeptCluster
from phalanx.batch.plan import Plan
from phalanx.batch.specs import Amounts, PodGroupSpec, QueueSpec, Snapshot, TaskSpec

EVICTING = frozenset({"preempt", "reclaim", "gangpreempt", "gangreclaim", "shuffle", "consolidate"})
"""Actions that take places away: they cost most of a long cycle, and seldom find anything."""


class SchedulerCache:
    """Runs cycles. `truth` gives everything as a snapshot, whenever it has to be read anew."""

    def __init__(self, config: Configuration, truth: Callable[[], Snapshot]) -> None:
        self._whole = Snapshot(config=config)
        gentle = tuple(name for name in config.actions if name not in EVICTING)
        self._gentle = Snapshot(config=msgspec.structs.replace(config, actions=gentle))
        self._truth = truth
        self._kept: KeptCluster | None = None

    def forget(self) -> None:
        """Read everything anew before the next cycle."""
        self._kept = None

    def admit(self, group: PodGroupSpec, tasks: Iterable[TaskSpec]) -> None:
        """A gang has come."""
        if self._kept is None:
            return
        try:
            if group.topology is None and not group.subgroups:
                self._kept.admit([group], tasks)
            else:
                self._kept = None
        except ValueError:  # of a resource that came after everything was read
            self._kept = None

    def amend(self, group: str, **told: Any) -> None:
        """A gang tells something else of itself, as far as it is looked at."""
        if self._kept is not None and group in self._kept.job_index:
            self._kept.amend(group, **told)

    def end(self, tasks: list[str]) -> None:
        """Members that held their places are over."""
        self._tell(KeptCluster.end, tasks)

    def withdraw(self, tasks: list[str]) -> None:
        """Members have lost their places, or never got them."""
        self._tell(KeptCluster.withdraw, tasks)

    def released(self, tasks: list[str]) -> None:
        """Evicted members have given their places back."""
        self._tell(KeptCluster.released, tasks)

    def _tell(self, what: Callable[[KeptCluster, Iterable[str]], None], tasks: list[str]) -> None:
        if self._kept is None:
            return
        try:
            what(self._kept, tasks)
        except KeyError:  # their node was gone when everything was read
            self._kept = None

    def set_queues(self, queues: Iterable[QueueSpec]) -> None:
        """These queues have other quotas."""
        if self._kept is None:
            return
        try:
            for queue in queues:
                self._kept.set_queue(queue)
        except (ValueError, KeyError):
            self._kept = None

    def decide(self, now: float, others: Mapping[str, Amounts], *, evicts: bool) -> Plan:
        """One cycle. `others`: what work outside of gangs takes of each node; unless it `evicts`,
        nobody has to go, whatever the configuration says."""
        chosen = self._whole if evicts else self._gentle
        snapshot = msgspec.structs.replace(chosen, now=now)
        cluster = self._kept or self._read()
        for node, amounts in others.items():
            cluster.occupy(node, amounts)
        plan = run_cycle(snapshot, cluster=cluster, explains=False)
        if isinstance(cluster, KeptCluster):
            cluster.settle(plan, now, at_once=False)
        return plan

    def _read(self) -> Cluster:
        truth = self._truth()
        if any(group.topology is not None or group.subgroups for group in truth.podgroups):
            return Cluster(truth)
        self._kept = KeptCluster(truth)
        return self._kept
