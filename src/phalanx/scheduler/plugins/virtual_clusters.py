"""The plugin virtual-clusters: each queue is promised cells of the topology, such as two racks.

The rules follow HiveD. A job is guaranteed if it requests GPUs, its priority is 0 or more, and its
queue has cells. Guaranteed jobs stay inside cells of their queue. A cell is bound to a place when a
job needs the cell (`plugin_parts.cells`). The plugin binds all cells for a job in one step, and so
gives all tasks of the job their places (`cycle.places`). All other work is opportunistic: it runs
on any free GPU, and is evicted by `reclaim` only when a guaranteed job needs the place. Guaranteed
work that exceeds the cells of its queue, for example because the queue lost cells, continues as
opportunistic work. Work that cannot be evicted (tasks and actors outside of jobs) reduces the cells
that can be promised. Inside a queue, a guaranteed job may evict guaranteed jobs of lower priority,
if it finds no room in the queue's cells otherwise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from phalanx.scheduler.cycle import jobs as j
from phalanx.scheduler.cycle.accepted import Accepted, Kind, Together
from phalanx.scheduler.cycle.amounts import Flags, Vector
from phalanx.scheduler.cycle.arguments import Arguments
from phalanx.scheduler.cycle.equivalence_class import EquivalenceClass
from phalanx.scheduler.cycle.evictions import EvictionAsk
from phalanx.scheduler.cycle.jobs import HOLDING, Job
from phalanx.scheduler.cycle.places import Places, PlacesAsk
from phalanx.scheduler.cycle.plan import Rejection
from phalanx.scheduler.cycle.rows import NEVER, TOUCHED, Ask, Change, Filter, Rows, Scorer, touched
from phalanx.scheduler.cycle.session import Session
from phalanx.scheduler.cycle.specs import NodeSpec
from phalanx.scheduler.plugin_parts.card_sets import CARD
from phalanx.scheduler.plugin_parts.cell_binding import CellBinding, units_of
from phalanx.scheduler.plugin_parts.cell_settings import fault_of, read_cells
from phalanx.scheduler.plugin_parts.cell_tree import Place
from phalanx.scheduler.plugin_parts.cells import (
    ALL_BOUND,
    BOUND_TO_OTHERS,
    OTHERS,
    PROMISED,
    Cells,
)
from phalanx.scheduler.plugin_parts.devices import numbered_devices

GPUS = "nvidia.com/gpu"
MAX_CARDS = 256
"""The largest number of GPUs of a node. Further GPUs are ignored."""
_NAMED = 5
"""The largest number of jobs or queues that a reason names."""


class VirtualClusters:
    """The plugin virtual-clusters. Arguments: `cells`, which has one level and a number for each
    queue, such as `{node: 2}`; `levels`, which adds levels by name. A level has either the node
    label that names its groups (smaller groups come first) or a number of GPUs inside a node. The
    levels `card`, `node` and `rack` (the label `rack`) always exist.
    """

    name = "virtual-clusters"
    accepts: ClassVar[Accepted] = Together(
        {
            "levels": {"*": Kind(says="a label or a number of GPUs", good=lambda v: v is not None)},
            "cells": {
                "*": Kind(
                    says="one level with a number, such as {node: 2}",
                    good=lambda v: isinstance(v, dict) and len(v) == 1,
                )
            },
        },
        fault_of,
    )

    def __init__(self, arguments: Arguments) -> None:
        self._settings = read_cells(arguments)

    def open(self, session: Session) -> None:
        self._session = session
        cluster = self._cluster = session.cluster
        self._gpu = cluster.dims.index.get(GPUS, -1)
        if self._gpu < 0 or not self._settings.promises:
            return
        self._downgraded: set[int] = set()
        """The tasks of guaranteed jobs that are beyond their queues' cells."""
        guaranteed, others = self._holdings()
        held = [
            (owner, node, sum(self._units(cluster.eq_class[t]) for t in tasks))
            for (owner, node), tasks in sorted(guaranteed.items())
        ]
        self._cells = Cells(self._settings.sizes, self._places(held), self._settings.promises)
        self._warn_of_lack()
        for owner, node, _ in self._cells.take_all(held):
            self._downgraded.update(guaranteed[owner, node])
        for node, units in others.items():
            self._cells.take(OTHERS, node, units)
        self._binding = CellBinding(session, self._cells, self._gpu, self.name, self)
        reclaims: list[tuple[str, Any]] = [
            ("held_back", self._held_back),
            ("reclaimable", self._reclaimable),
            ("preemptable", self._preemptable),
            ("entitled", self._entitled),
            ("places", self._places_of),
            ("preemptive", self._preemptive),
            ("evictable", self._evictable),
            ("nothing_taken", self._borrowers),
            ("changed", self._changed),
            ("filter", self._filter()),
            ("scorer", self._scorer()),
        ]
        for hook, fn in reclaims:
            session.add(hook, self.name, fn)

    # -- the cluster ----------------------------------------------------------------------------

    def _places(self, held: Sequence[tuple[str, int, int]]) -> list[Place]:
        """Return a Place for each node: its cards, and the groups that it is in. A closed node has
        only the cards that guaranteed work holds there.
        """
        cluster, labels = self._cluster, self._settings.labels

        def groups_of(nodes: Sequence[NodeSpec]) -> list[tuple[str, ...]]:
            named = [dict(node.labels) for node in nodes]
            return [tuple([of.get(label, "") for label in labels]) for of in named]

        groups = cluster.described(f"{self.name} {labels}", groups_of)
        counts = cluster.capacity[:, self._gpu] // CARD
        cards = numbered_devices(self._session, self.name, counts, MAX_CARDS).tolist()
        needed: Counter[int] = Counter()
        for _, node, units in held:
            needed[node] += -(-units // CARD)
        for n, spec in enumerate(cluster.nodes):
            if spec.unschedulable:
                cards[n] = needed[n]
        return list(map(Place, cards, groups))

    def _warn_of_lack(self) -> None:
        for level, count in enumerate(self._cells.lacking()):
            if count:
                name = self._settings.names[level]
                self._session.warn(
                    f"{self.name}: the cluster lacks {count} of the cells of level {name} that "
                    "queues are promised"
                )

    def _holdings(self) -> tuple[Mapping[tuple[str, int], list[int]], Mapping[int, int]]:
        """Return two values: the tasks of guaranteed work by queue and node, and for each node the
        units held by work that cannot be evicted.
        """
        cluster = self._cluster
        held: dict[tuple[str, int], list[int]] = {}
        others: Counter[int] = Counter()
        for t, node in enumerate(cluster.node_of):
            if node < 0 or cluster.status[t] not in HOLDING:
                continue
            units = self._units(cluster.eq_class[t])
            if not units:
                continue
            owner = self.owner(t)
            if owner:
                held.setdefault((owner, node), []).append(t)
            elif not self.can_go(t):
                others[node] += units
        for node in cluster.nodes_of_others():
            others[node] += cluster.taken_by_others(node, self._gpu)
        return held, +others

    def _units(self, eq_class: EquivalenceClass) -> int:
        return units_of(eq_class, self._gpu)

    # -- guaranteed or opportunistic ------------------------------------------------------------

    def _is_guaranteed(self, job: Job) -> bool:
        return job.priority >= 0 and self._queue(job) in self._settings.promises

    def _queue(self, job: Job) -> str:
        return self._cluster.queues[job.queue].name

    def owner(self, t: int) -> str:
        """Return the queue in whose cells the task runs; "" for opportunistic work."""
        cluster = self._cluster
        if cluster.job_of[t] < 0 or not self._units(cluster.eq_class[t]):
            return ""
        job = self._session.job(t)
        if not self._is_guaranteed(job):
            return ""
        return "" if t in self._downgraded else self._queue(job)

    def can_go(self, t: int) -> bool:
        """Whether opportunistic work can be evicted."""
        cluster = self._cluster
        return (
            cluster.job_of[t] >= 0
            and cluster.tasks[t].preemptable
            and cluster.queues[self._session.job(t).queue].reclaimable
        )

    def _held_back(self, job: Job) -> Rejection | None:
        if self._is_guaranteed(job) or not job.total_request[self._gpu]:
            return None
        if self._cluster.queues[job.queue].reclaimable:
            return None
        return Rejection(reason="cell-needed", detail={"queue": self._queue(job)})

    # -- places of guaranteed jobs --------------------------------------------------------------

    def _entitled(self, job: Job) -> bool:
        return self._is_guaranteed(job) and bool(job.total_request[self._gpu])

    def _places_of(self, ask: PlacesAsk) -> Places | None:
        return self._binding.places(ask) if self._entitled(ask.job) else None

    # -- which nodes ----------------------------------------------------------------------------

    def _filter(self) -> Filter:
        return Filter(
            reason="cell",
            passes=self._passes,
            changes=touched,
            curable=True,
            scope="kind",
            kind=lambda job: (job.queue, self._entitled(job)),
            detail=self._detail,
        )

    def _scorer(self) -> Scorer:
        return Scorer(
            name=self.name,
            score=self._score,
            changes=lambda eq_class: TOUCHED if self._units(eq_class) else NEVER,
        )

    def _passes(self, rows: Rows, ask: Ask) -> Flags:
        """Return a flag for each node: whether the task may be there. Guaranteed jobs get their
        places from `CellBinding`. For them, this filter is asked only about single nodes, and for
        explanations.
        """
        units = self._units(ask.eq_class)
        if not self._entitled(ask.job):
            open_to: Flags = ~self._binding.reserved[rows.index]
            return open_to
        if not units:
            return np.ones(len(rows), dtype=np.bool_)
        if self._binding.has_given(ask.task, rows.index):
            return np.ones(len(rows), dtype=np.bool_)
        queue = self._queue(ask.job)
        if len(rows) == 1:
            fault = self._cells.fault(queue, int(rows.index[0]), units)
            return np.array([fault is None], dtype=np.bool_)
        passes: Flags = self._cells.faults(queue, units)[1][rows.index] == 0
        return passes

    def _score(self, rows: Rows, ask: Ask) -> Vector:
        """Return scores by which opportunistic work avoids nodes that are entirely free: the more
        GPUs of a node are in use, the higher its score.
        """
        if not self._units(ask.eq_class):
            return np.zeros(len(rows))
        used = rows.used(self._gpu) / np.maximum(rows.capacity(self._gpu), 1)
        return 100.0 * np.minimum(used, 1)

    def _detail(self, ask: Ask) -> Mapping[str, Any]:
        queue = self._queue(ask.job)
        if not self._entitled(ask.job):
            why = "they are kept for a guaranteed job, for which work there leaves"
            return {"queue": queue, "why": why}
        promise = self._settings.promises[queue]
        answers, at = self._cells.faults(queue, self._units(ask.eq_class))
        faults = {answers[i] for i in np.unique(at).tolist()}
        level = self._settings.names[promise.level]
        bound = self._cells.bound(queue)
        if ALL_BOUND in faults and PROMISED not in faults:
            why = f"all {promise.number} cells of level {level} that it is promised are in use"
        elif PROMISED in faults:
            why = f"free cells of level {level} are promised to other queues"
        elif BOUND_TO_OTHERS in faults:
            why = f"no cell of level {level} is free of work of other queues"
        else:
            why = f"the cluster has no cell of level {level}"
        return {"queue": queue, "level": level, "cells": promise.number, "bound": bound, "why": why}

    def _changed(self, change: Change) -> None:
        units = self._units(change.eq_class)
        for t, node in zip(change.tasks, change.nodes, strict=True):
            owner = self.owner(t) if units else ""
            if owner:
                self._cells.take(owner, node, change.sign * units)
            else:
                self._binding.note(t, node, change.sign)

    # -- evictions ------------------------------------------------------------------------------

    def _preemptive(self, queue: int, request: Vector) -> bool:
        return self._cluster.queues[queue].name in self._settings.promises

    def _reclaimable(self, reclaimer: int, candidates: Sequence[int]) -> list[int]:
        job = self._session.job(reclaimer)
        if not self._is_guaranteed(job):
            return []
        return [t for t in candidates if not self.owner(t)]

    def _preemptable(self, preemptor: int, candidates: Sequence[int]) -> list[int] | None:
        """Return the candidates that a guaranteed job may evict in its own queue: those of lower
        priority. None for other jobs.
        """
        job = self._session.job(preemptor)
        if not self._is_guaranteed(job):
            return None
        return [t for t in candidates if self._session.job(t).yields_to(job)]

    def _evictable(self, ask: EvictionAsk, candidates: Sequence[int]) -> list[int]:
        if ask.within_queue:
            return list(candidates)
        if not self._is_guaranteed(ask.job):
            return []
        return [t for t in candidates if not self.owner(t)]

    def _borrowers(
        self, job: Job, eq_class: EquivalenceClass, count: int, resources: Sequence[str]
    ) -> list[Rejection]:
        """Return a rejection that names the opportunistic work in the free cells that a guaranteed
        job could use; no rejection if there is no such work.
        """
        units = self._units(eq_class)
        if not units or not self._is_guaranteed(job):
            return []
        at = self._cells.faults(self._queue(job), units)[1]
        uids = sorted(set(self._there(np.flatnonzero(at == 0).tolist())))
        if not uids:
            return []
        shown = [uid.removeprefix("default/") for uid in uids[:_NAMED]]
        more = len(uids) - len(shown)
        holders = ", ".join(shown) + (f" and {more} more" if more else "")
        detail = {"queue": self._queue(job), "holders": holders}
        return [Rejection(reason="cell-borrowed", count=len(uids), detail=detail)]

    def _there(self, nodes: Sequence[int]) -> Iterator[str]:
        """Yield, for each task of opportunistic work on the nodes, the name of its job."""
        cluster = self._cluster
        for node in nodes:
            for t in cluster.on_node[node]:
                holds = cluster.job_of[t] >= 0 and cluster.status[t] in (j.RUNNING, j.BOUND)
                if holds and self._units(cluster.eq_class[t]) and not self.owner(t):
                    yield self._session.job(t).uid
