"""The plugin selector: OpenPAI's selector for gangs, with a buffer of candidates and common ports.

Source: microsoft/pai a95d9420, SelectionManager. The chain of filters is
`placement.selector.chain`, which also places tasks and actors. Each task goes to one of the fullest
nodes that pass the chain. This node is chosen at random, with a seed from the snapshot. If a gang
needs ports, it gets nodes that have enough free ports in common.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import ClassVar

import numpy as np

from phalanx.scheduler.cycle import jobs as j
from phalanx.scheduler.cycle.accepted import FLAG, TEXT, WHOLE, Accepted, one_of
from phalanx.scheduler.cycle.amounts import ALIASES, CPU, MEMORY, Counts, Flags, Vector
from phalanx.scheduler.cycle.arguments import Arguments, flag, text, whole, within
from phalanx.scheduler.cycle.cluster import Cluster
from phalanx.scheduler.cycle.jobs import Job
from phalanx.scheduler.cycle.rows import Ask, Change, Filter, Indexes, Rows, Scorer, always, never
from phalanx.scheduler.cycle.session import Session
from phalanx.scheduler.cycle.specs import Match, NodeSpec
from phalanx.scheduler.devices.ports import LAST_PORT, Ports, common_ports
from phalanx.scheduler.placement.outcome import GPU_TYPE_RESOURCE
from phalanx.scheduler.placement.seeded import Seeded
from phalanx.scheduler.placement.selector.chain import Columns, select
from phalanx.scheduler.placement.selector.settings import (
    GPU_TYPE_LABEL,
    SelectorSettings,
)

GPU = ALIASES["gpu"]
_TYPED = f"phalanx/{GPU_TYPE_RESOURCE}"


class Selector:
    """The plugin selector. Arguments, as in `SelectorSettings`: `candidate_factor` (2),
    `min_dynamic_port` (2000), `allow_cpu_jobs_on_gpu_nodes` (true), `skip_tried` (true),
    `same_rack` (ignore, prefer or require), `rack_label` (rack), `pick` (random or fullest).
    """

    name = "selector"
    accepts: ClassVar[Accepted] = {
        "candidate_factor": WHOLE,
        "min_dynamic_port": WHOLE,
        "allow_cpu_jobs_on_gpu_nodes": FLAG,
        "skip_tried": FLAG,
        "same_rack": one_of("ignore", "prefer", "require"),
        "rack_label": TEXT,
        "pick": one_of("random", "fullest"),
    }

    def __init__(self, arguments: Arguments) -> None:
        usual = SelectorSettings()
        self._settings = SelectorSettings(
            candidate_factor=max(1, whole(arguments, "candidate_factor", usual.candidate_factor)),
            min_dynamic_port=int(
                within(arguments, "min_dynamic_port", usual.min_dynamic_port, 0, LAST_PORT)
            ),
            allow_cpu_jobs_on_gpu_nodes=flag(arguments, "allow_cpu_jobs_on_gpu_nodes", True),
            skip_tried=flag(arguments, "skip_tried", True),
            same_rack=arguments.get("same_rack", usual.same_rack),
            rack_label=text(arguments, "rack_label", "") or usual.rack_label,
            pick=arguments.get("pick", usual.pick),
        )

    def open(self, session: Session) -> None:
        cluster = session.cluster
        self._session, self._cluster = session, cluster
        self._rng = Seeded(session.snapshot.seed)
        self._gpu = cluster.dims.index.get(GPU)
        self._racks = [labels.get(self._settings.rack_label) for labels in cluster.labels]
        self._places = _Places(cluster)
        self._ports = _GangPorts(cluster, self._places, self._settings.min_dynamic_port)

        def per_job(reason: str, passes: object, changes: object) -> None:
            rule = Filter(reason=reason, passes=passes, changes=changes, scope="job")  # type: ignore[arg-type]
            session.add("filter", self.name, rule)

        per_job("gpu-type", self._typed, never)
        if not self._settings.allow_cpu_jobs_on_gpu_nodes:
            per_job("cpu-only", self._not_wasted, never)
        if self._settings.skip_tried and any(job.spec.tried for job in cluster.jobs):
            per_job("tried", self._untried, always)
        if self._settings.same_rack != "ignore":
            per_job("rack", self._near, always)
        if self._ports.matter:
            per_job("common-ports", self._with_ports, always)
        session.add(
            "scorer",
            self.name,
            Scorer(name=self.name, score=self._fullest_first, changes=always, scope="job"),
        )
        session.add("best_node", self.name, self._best_node)
        session.add("changed", self.name, self._changed)

    # -- filters --------------------------------------------------------------------------------

    def _typed(self, rows: Rows, ask: Ask) -> Flags:
        """Return a mask of the nodes whose GPUs have the type that the class requests, by a label
        or by a resource.
        """
        cluster, shape = self._cluster, ask.eq_class.shape
        good = np.ones(len(cluster.nodes), dtype=np.bool_)
        for key, value in shape.selector:
            if key == GPU_TYPE_LABEL:
                good &= cluster.labelled(Match(key=key, op="In", values=(value,)))
        for matches in shape.affinity.node_required if shape.affinity else ():
            good &= cluster.labelled(*(m for m in matches if m.key == GPU_TYPE_LABEL))
        for name, _ in shape.request:
            if name.startswith(_TYPED):
                good &= cluster.capacity[:, cluster.dims.index[name]] > 0
        return good[rows.index]

    def _not_wasted(self, rows: Rows, ask: Ask) -> Flags:
        """Return a mask of the nodes without GPUs for a job that requests no GPUs; of all nodes for
        any other job.
        """
        if self._gpu is None or ask.job.total_request[self._gpu]:
            return np.ones(len(rows), dtype=np.bool_)
        return np.asarray(rows.capacity(self._gpu) == 0, dtype=np.bool_)

    def _untried(self, rows: Rows, ask: Ask) -> Flags:
        """Return a mask of the nodes that have room even if the amounts that they lately refused to
        the gang count as taken.
        """
        cluster, request = self._cluster, ask.eq_class.request
        good = np.ones(len(rows), dtype=np.bool_)
        for name, amounts in ask.job.spec.tried:
            node = cluster.node_index.get(name)
            if node is None:
                continue
            left = cluster.future[node] - cluster.dims.counts(amounts)
            if (left < request)[ask.eq_class.asked].any():
                good &= rows.index != node
        return good

    def _near(self, rows: Rows, ask: Ask) -> Flags:
        """Return a mask of the nodes in the racks where the gang runs; of all nodes if it runs in
        no rack or may leave its racks.
        """
        own = {self._racks[node] for node in self._places.of(ask.job)} - {None}
        near = np.array([self._racks[n] in own for n in rows.index], dtype=np.bool_)
        if not own or (self._settings.same_rack == "prefer" and not self._has_room_near(own, ask)):
            return np.ones(len(rows), dtype=np.bool_)
        return near

    def _has_room_near(self, racks: set[str | None], ask: Ask) -> bool:
        index = np.array([n for n, rack in enumerate(self._racks) if rack in racks])
        asked = ask.eq_class.asked
        fits = (self._cluster.future[index] >= ask.eq_class.request)[:, asked].all(axis=1)
        return bool(fits.any())

    def _with_ports(self, rows: Rows, ask: Ask) -> Flags:
        """Return a mask of the nodes where the gang's ports are free. If the gang has no ports yet,
        return a mask of the nodes with enough free ports.
        """
        return self._ports.passes(rows.index, ask.job)

    # -- choosing -------------------------------------------------------------------------------

    def _columns(self, index: Indexes) -> Columns:
        """Return the chain's columns for these nodes, which have passed every filter."""
        passed = np.ones(len(index), dtype=np.bool_)
        none: Counts = np.zeros(len(index), dtype=np.int64)
        future, gpu = self._cluster.future, self._gpu
        return Columns(
            labelled=passed,
            typed=passed,
            has_room=passed,
            is_untried=passed,
            total_gpus=none if gpu is None else self._cluster.capacity[index, gpu],
            free_gpus=none if gpu is None else future[index, gpu],
            free_cpu=future[index, CPU],
            free_memory=future[index, MEMORY],
        )

    def _fullest_first(self, rows: Rows, ask: Ask) -> Vector:
        """Return scores for actions that evict: the fuller a node, the higher its score."""
        score = np.zeros(len(rows))
        score[self._columns(rows.index).packing_order()] = -np.arange(float(len(rows)))
        return score

    def _best_node(self, task: int, nodes: Indexes, scores: Vector) -> int:
        waiting = max(1, self._session.job(task).counts[j.PENDING])
        found = select(self._columns(np.asarray(nodes)), self._settings, waiting=waiting)
        row = found.draw(self._settings, self._rng)
        return -1 if row is None else int(nodes[row])

    def _changed(self, change: Change) -> None:
        self._places.change(change.job, change.nodes, change.sign)


class _Places:
    """For each job: the nodes where its tasks are, and how many tasks are on each."""

    def __init__(self, cluster: Cluster) -> None:
        self._of: dict[int, Counter[int]] = {}
        for t, status in enumerate(cluster.status):
            if status in j.HOLDING and cluster.job_of[t] >= 0:
                self._of.setdefault(cluster.job_of[t], Counter())[cluster.node_of[t]] += 1

    def of(self, job: Job) -> set[int]:
        """Return the nodes where a job has tasks."""
        return set(self._of.get(job.index, ()))

    def change(self, job: Job, nodes: Sequence[int], sign: int) -> None:
        """Record that tasks of the job were placed on these nodes (`sign` 1) or left them (-1)."""
        mine = self._of.setdefault(job.index, Counter())
        for node in nodes:
            mine[node] += sign
            if not mine[node]:
                del mine[node]


class _GangPorts:
    """Keeps each gang on nodes that have the same ports free for it. No two gangs share a port. A
    gang's ports are chosen when it is placed.
    """

    def __init__(self, cluster: Cluster, places: _Places, lowest: int) -> None:
        """`lowest` is the lowest port that may be chosen."""
        self._lowest = lowest
        self._places = places
        self._offered = cluster.described("ports", _offered)
        self.matter = any(self._offered) and any(job.spec.port_count for job in cluster.jobs)
        self._held = _ports(port for job in cluster.jobs for port in job.spec.ports)

    def passes(self, index: Indexes, job: Job) -> Flags:
        """Return a mask of the nodes where the ports of the gang's running members are free.

        Before any member runs, these are the nodes that have enough free ports in common with the
        gang's other nodes.
        """
        count, own, here = job.spec.port_count, _ports(job.spec.ports), self._places.of(job)
        others = self._held - own
        is_running = bool(own) and job.counts[j.RUNNING] > 0
        common = common_ports(self._offered[node] - others for node in here)

        def suffices(offered: Ports) -> bool:
            free = offered - others
            if is_running:
                return own <= free
            return len((free & common if here else free).from_port(self._lowest)) >= count

        known: dict[Ports, bool] = {}
        for offered in (self._offered[n] for n in index):
            if offered not in known:
                known[offered] = suffices(offered)
        return np.array([known[self._offered[n]] for n in index], dtype=np.bool_)


def _offered(nodes: Sequence[NodeSpec]) -> list[Ports]:
    return [Ports.of(node.ports) for node in nodes]


def _ports(listed: Iterable[int]) -> Ports:
    return Ports.of((port, port) for port in listed)
