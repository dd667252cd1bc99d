"""Buckets: groups of a job's tasks that should share a node.

Source: Volcano's task-topology plugin.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from phalanx.scheduler.cycle.amounts import CPU, MEMORY, Counts
from phalanx.scheduler.cycle.cluster import Cluster
from phalanx.scheduler.cycle.jobs import Job

_PREFIX = "volcano.sh/task-topology-"
_MIB = 1024 * 1024


@dataclass(kw_only=True)
class Wishes:
    """The wishes of a job about its roles: `together` and `apart` have pairs of roles. `order` and
    `strength` have a number for each role.
    """

    together: set[tuple[str, str]] = field(default_factory=set)
    apart: set[tuple[str, str]] = field(default_factory=set)
    order: dict[str, int] = field(default_factory=dict)
    strength: dict[str, int] = field(default_factory=dict)


def wishes_of(annotations: Mapping[str, str], roles: set[str]) -> Wishes | None:
    """Return the job's wishes; None if the job has none, or if they name a role that none of its
    tasks has.
    """
    near = annotations.get(_PREFIX + "affinity")
    far = annotations.get(_PREFIX + "anti-affinity")
    order = annotations.get(_PREFIX + "task-order", annotations.get("volcano.sh/task-order"))
    if near is None and far is None and order is None:
        return None
    wishes = Wishes()
    for text, pairs, like, other in ((near, wishes.together, 2, 3), (far, wishes.apart, 4, 1)):
        for group in (text or "").split(";"):
            named = [r for r in group.split(",") if r]
            if len(set(named)) < len(named) or not set(named) <= roles:
                return None
            for role in named:
                worth = like if len(named) == 1 else other
                wishes.strength[role] = max(wishes.strength.get(role, 0), worth)
                others = named if len(named) == 1 else [r for r in named if r != role]
                pairs.update((role, r) for r in others)
    listed = [r for r in (order or "").split(",") if r]
    if not set(listed) <= roles:
        return None
    wishes.order = {role: len(listed) - i for i, role in enumerate(listed)}
    return wishes


class Bucket:
    """Tasks of one bucket that are not placed yet, the sum of their requests, and the nodes of the
    bucket's placed tasks.
    """

    __slots__ = ("index", "on_node", "placed", "request", "roles", "tasks", "weight")

    def __init__(self, index: int, size: int) -> None:
        self.index = index
        self.tasks: set[int] = set()
        self.roles: dict[str, int] = {}
        self.request: Counts = np.zeros(size, dtype=np.int64)
        self.weight = 0.0
        self.placed = 0
        self.on_node: dict[int, int] = {}


class Buckets:
    """All buckets of a job. `largest`: the size of the largest bucket, at least 1."""

    def __init__(self, cluster: Cluster, job: Job, wishes: Wishes) -> None:
        self._cluster = cluster
        self._wishes = wishes
        self._all: list[Bucket] = []
        self._bucket_of: dict[int, Bucket] = {}
        self._on_node: dict[int, dict[str, int]] = {}
        self.largest = 1
        mine = [t for t in job.tasks if cluster.eq_class[t].shape.role in wishes.strength]
        by_node: dict[int, Bucket] = {}
        for t in sorted(mine, key=self._first):
            self._put(t, by_node)

    def of(self, t: int) -> Bucket | None:
        return self._bucket_of.get(t)

    def role_key(self, t: int) -> tuple[int, int]:
        """Return the sort key of a task: roles with a requested order come first, then the roles
        with the strongest wishes.
        """
        role = self._cluster.eq_class[t].shape.role
        return (-self._wishes.order.get(role, 0), -self._wishes.strength.get(role, 0))

    def repulsion(self, role: str, node: int) -> int:
        """Return how many tasks on the node should be apart from tasks of the role, as a negative
        number.
        """
        return self._pull(role, self._on_node.get(node, {}), only_apart=True)

    def moved(self, t: int, node: int, sign: int) -> None:
        """Record that a task of the job got a node (+1) or lost it (-1)."""
        role = self._cluster.eq_class[t].shape.role
        if role:
            there = self._on_node.setdefault(node, {})
            there[role] = there.get(role, 0) + sign
        bucket = self._bucket_of.get(t)
        if bucket is not None:
            bucket.on_node[node] = bucket.on_node.get(node, 0) + sign
            bucket.placed += sign
            if sign > 0:
                bucket.tasks.discard(t)
            else:
                bucket.tasks.add(t)
            self._load(bucket, t, -sign)

    def _first(self, t: int) -> tuple[int, str, tuple[int, int], str]:
        node = self._cluster.node_of[t]
        name = self._cluster.node_names[node] if node >= 0 else ""
        key = self.role_key(t) if node < 0 else (0, 0)
        return (0 if node >= 0 else 1, name, key, self._cluster.tasks[t].name)

    def _pull(self, role: str, roles: Mapping[str, int], *, only_apart: bool) -> int:
        out = 0
        for other, count in roles.items():
            if not only_apart and (role, other) in self._wishes.together:
                out += count
            if (role, other) in self._wishes.apart:
                out -= count
        return out

    def _put(self, t: int, by_node: dict[int, Bucket]) -> None:
        role, node = self._cluster.eq_class[t].shape.role, self._cluster.node_of[t]
        chosen: Bucket | None = None
        best = -(1 << 31)
        if node >= 0:
            best, chosen = 0, by_node.get(node)
        else:
            for bucket in self._all:
                pull = self._pull(role, bucket.roles, only_apart=False)
                lighter = chosen is not None and bucket.weight < chosen.weight
                if pull > best or (pull == best and lighter):
                    best, chosen = pull, bucket
        if best < 0 or chosen is None:
            chosen = Bucket(len(self._all), len(self._cluster.dims))
            self._all.append(chosen)
            if node >= 0:
                by_node[node] = chosen
        self._bucket_of[t] = chosen
        chosen.roles[role] = chosen.roles.get(role, 0) + 1
        if node >= 0:
            chosen.on_node[node] = chosen.on_node.get(node, 0) + 1
            chosen.placed += 1
        else:
            chosen.tasks.add(t)
            self._load(chosen, t, 1)
        self.largest = max(self.largest, len(chosen.tasks) + chosen.placed)

    def _load(self, bucket: Bucket, t: int, sign: int) -> None:
        request = self._cluster.eq_class[t].request
        bucket.request += request * sign
        others = float(request.sum() - request[CPU] - request[MEMORY])
        bucket.weight += sign * (float(request[CPU]) + float(request[MEMORY]) / _MIB + others)
