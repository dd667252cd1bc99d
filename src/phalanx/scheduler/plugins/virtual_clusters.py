"""The plugin virtual-clusters: each queue is promised cells of the topology, such as two racks.

The rules follow HiveD. A job with GPUs is guaranteed if its priority is at least 0 and its queue
has cells. It stays inside cells of its queue, which are bound to places when they are needed
(`plugin_parts.cells`). All other work is opportunistic: it runs on any free GPU, and `reclaim`
evicts it only when a guaranteed job needs the place.

Guaranteed work that exceeds the cells of its queue, for example because the queue lost cells,
continues as opportunistic work. The places of work that cannot be evicted (tasks and actors outside
of jobs) are no longer among the cells that can be promised. Inside a queue, priorities decide as
without this plugin.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from phalanx.scheduler.cycle import jobs as j
from phalanx.scheduler.cycle.accepted import Accepted, Kind, Together
from phalanx.scheduler.cycle.amounts import Flags, Vector
from phalanx.scheduler.cycle.arguments import Arguments
from phalanx.scheduler.cycle.equivalence_class import EquivalenceClass
from phalanx.scheduler.cycle.evictions import EvictionAsk
from phalanx.scheduler.cycle.jobs import HOLDING, Job
from phalanx.scheduler.cycle.plan import Rejection
from phalanx.scheduler.cycle.rows import ALWAYS, NEVER, Ask, Change, Filter, Rows, Scorer
from phalanx.scheduler.cycle.session import Session
from phalanx.scheduler.plugin_parts.cell_settings import fault_of, read_cells
from phalanx.scheduler.plugin_parts.cells import (
    ALL_BOUND,
    BOUND_TO_OTHERS,
    CARD,
    OTHERS,
    PROMISED,
    Cells,
    Place,
)
from phalanx.scheduler.plugin_parts.devices import numbered_devices

GPUS = "nvidia.com/gpu"
MAX_CARDS = 256
"""The largest number of GPUs that a node counts for."""
_NAMED = 5
"""The largest number of jobs or queues that a reason names."""


class _Answer(NamedTuple):
    """Where a queue may take some units: for each kind of nodes why it may not, and for each node
    whether it may, and whether the node is in a cell of the queue.
    """

    faults: list[str | None]
    passes: Flags
    bound: Flags


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
        self._downgraded: set[tuple[str, int]] = set()
        """Pairs of a queue and a node: guaranteed work there exceeds the cells of the queue."""
        held, others = self._holdings()
        self._cells = Cells(self._settings.sizes, self._places(held), self._settings.promises)
        self._warn_of_lack()
        for owner, node, _ in self._cells.take_all(held):
            self._downgraded.add((owner, node))
        for node, units in others.items():
            self._cells.take(OTHERS, node, units)
        self._answers: dict[tuple[str, int], tuple[int, _Answer]] = {}
        self._version = 0
        reclaims: list[tuple[str, Any]] = [
            ("held_back", self._held_back),
            ("reclaimable", self._reclaimable),
            ("own_reclaimable", self._own_reclaimable),
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
        """Return a place for each node. A closed node has only the cards that guaranteed work holds
        there.
        """
        cluster, labels = self._cluster, self._settings.labels
        counts = cluster.capacity[:, self._gpu] // CARD
        cards = numbered_devices(self._session, self.name, counts, MAX_CARDS).tolist()
        needed: Counter[int] = Counter()
        for _, node, units in held:
            needed[node] += -(-units // CARD)
        for n, spec in enumerate(cluster.nodes):
            if spec.unschedulable:
                cards[n] = needed[n]
        return [
            Place(cards[n], tuple(cluster.labels[n].get(x, "") for x in labels))
            for n in range(len(cluster.nodes))
        ]

    def _warn_of_lack(self) -> None:
        for level, count in enumerate(self._cells.lacking()):
            if count:
                name = self._settings.names[level]
                self._session.warn(
                    f"{self.name}: the cluster lacks {count} of the cells of level {name} that "
                    "queues are promised"
                )

    def _holdings(self) -> tuple[list[tuple[str, int, int]], Mapping[int, int]]:
        """Return what guaranteed work holds, as (queue, node, units), and for each node the units
        that work holds which cannot be evicted.
        """
        cluster = self._cluster
        held: Counter[tuple[str, int]] = Counter()
        others: Counter[int] = Counter()
        for t, status in enumerate(cluster.status):
            node = cluster.node_of[t]
            units = self._units(cluster.eq_class[t])
            if node < 0 or not units or status not in HOLDING:
                continue
            if self._owner(t):
                held[self._owner(t), node] += units
            elif not self._can_go(t):
                others[node] += units
        for node in range(len(cluster.nodes)):
            others[node] += cluster.taken_by_others(node, self._gpu)
        return [(owner, node, units) for (owner, node), units in sorted(held.items())], +others

    def _units(self, eq_class: EquivalenceClass) -> int:
        """Return the units of GPUs that a task of the class takes. More than half of a GPU counts
        as a whole GPU, because two such shares do not fit on one.
        """
        whole, share = divmod(int(eq_class.request[self._gpu]), CARD)
        return (whole + (share > CARD // 2)) * CARD + (share if share <= CARD // 2 else 0)

    # -- guaranteed or opportunistic ------------------------------------------------------------

    def _is_guaranteed(self, job: Job) -> bool:
        return job.priority >= 0 and self._queue(job) in self._settings.promises

    def _queue(self, job: Job) -> str:
        return self._cluster.queues[job.queue].name

    def _owner(self, t: int) -> str:
        """Return the queue in whose cells a task must run; "" for opportunistic work."""
        cluster = self._cluster
        if cluster.job_of[t] < 0 or not self._units(cluster.eq_class[t]):
            return ""
        job = self._session.job(t)
        if not self._is_guaranteed(job):
            return ""
        owner = self._queue(job)
        return "" if (owner, cluster.node_of[t]) in self._downgraded else owner

    def _can_go(self, t: int) -> bool:
        """Whether the task is opportunistic work that can be evicted."""
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

    # -- which nodes ----------------------------------------------------------------------------

    def _filter(self) -> Filter:
        return Filter(
            reason="cell",
            passes=self._passes,
            changes=lambda eq_class: ALWAYS if self._units(eq_class) else NEVER,
            curable=True,
            scope="kind",
            kind=lambda job: (job.queue, self._is_guaranteed(job)),
            detail=self._detail,
        )

    def _scorer(self) -> Scorer:
        return Scorer(
            name=self.name,
            score=self._score,
            changes=lambda eq_class: ALWAYS if self._units(eq_class) else NEVER,
            scope="job",
        )

    def _answer(self, queue: str, units: int) -> _Answer:
        """Return where the queue may take these units."""
        known = self._answers.get((queue, units))
        if known is None or known[0] != self._version:
            kinds, faults, bound = self._cells.faults(queue, units)
            open_to = np.array([fault is None for fault in faults], dtype=np.bool_)
            found = _Answer(faults, open_to[kinds], np.array(bound, dtype=np.bool_)[kinds])
            known = self._answers[queue, units] = (self._version, found)
        return known[1]

    def _passes(self, rows: Rows, ask: Ask) -> Flags:
        units = self._units(ask.eq_class)
        if not units or not self._is_guaranteed(ask.job):
            return np.ones(len(rows), dtype=np.bool_)
        passes: Flags = self._answer(self._queue(ask.job), units).passes[rows.index]
        return passes

    def _score(self, rows: Rows, ask: Ask) -> Vector:
        """Return scores. For guaranteed work: cells of its queue come first, then nodes with the
        least opportunistic work, whose eviction costs the least. Opportunistic work avoids nodes on
        which nothing runs.
        """
        if not self._units(ask.eq_class):
            return np.zeros(len(rows))
        used = rows.used(self._gpu) / np.maximum(self._cluster.capacity[rows.index, self._gpu], 1)
        part: Vector = 100.0 * np.minimum(used, 1)
        if not self._is_guaranteed(ask.job):
            return part
        mine = self._answer(self._queue(ask.job), self._units(ask.eq_class)).bound[rows.index]
        return np.where(mine, 200.0, 100.0 - part)

    def _detail(self, ask: Ask) -> Mapping[str, Any]:
        queue = self._queue(ask.job)
        promise = self._settings.promises[queue]
        faults = set(self._answer(queue, self._units(ask.eq_class)).faults)
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
        if not units:
            return
        self._version += 1
        for t, node in zip(change.tasks, change.nodes, strict=True):
            if self._owner(t):
                self._cells.take(self._owner(t), node, change.sign * units)

    # -- evictions ------------------------------------------------------------------------------

    def _preemptive(self, queue: int, request: Vector) -> bool:
        return self._cluster.queues[queue].name in self._settings.promises

    def _reclaimable(self, reclaimer: int, candidates: Sequence[int]) -> list[int]:
        job = self._session.job(reclaimer)
        if not self._is_guaranteed(job):
            return []
        return [t for t in candidates if not self._owner(t)]

    def _own_reclaimable(self, reclaimer: int, candidates: Sequence[int]) -> list[int]:
        """Return the victims of the reclaimer's own queue, which are chosen by priority, as in
        preempt. They may be in the same place as work of other queues, and a guaranteed job needs
        the whole place.
        """
        job = self._session.job(reclaimer)
        if not self._is_guaranteed(job):
            return []
        return [t for t in candidates if self._session.job(t).priority < job.priority]

    def _evictable(self, ask: EvictionAsk, candidates: Sequence[int]) -> list[int]:
        if ask.within_queue:
            return list(candidates)
        if not self._is_guaranteed(ask.job):
            return []
        return [t for t in candidates if not self._owner(t)]

    def _borrowers(
        self, job: Job, eq_class: EquivalenceClass, count: int, resources: Sequence[str]
    ) -> list[Rejection]:
        """Return, as reasons, the work that holds free cells which a guaranteed job could use,
        although it has no right to them.
        """
        units = self._units(eq_class)
        if not units or not self._is_guaranteed(job):
            return []
        passes = self._answer(self._queue(job), units).passes
        uids = sorted(set(self._there(np.flatnonzero(passes).tolist())))
        if not uids:
            return []
        shown = [uid.removeprefix("default/") for uid in uids[:_NAMED]]
        more = len(uids) - len(shown)
        holders = ", ".join(shown) + (f" and {more} more" if more else "")
        detail = {"queue": self._queue(job), "holders": holders}
        return [Rejection(reason="cell-borrowed", count=len(uids), detail=detail)]

    def _there(self, nodes: Sequence[int]) -> Iterator[str]:
        """Yield the jobs with opportunistic work on the nodes."""
        cluster = self._cluster
        for node in nodes:
            for t in cluster.on_node[node]:
                holds = cluster.job_of[t] >= 0 and cluster.status[t] in (j.RUNNING, j.BOUND)
                if holds and self._units(cluster.eq_class[t]) and not self._owner(t):
                    yield self._session.job(t).uid
