"""Reservations as one session reads them: the amounts that they keep on each node, their times, and
the jobs that may use them.

A job that names a reservation is its guest: it runs inside the reservation while the reservation
lasts. All other jobs are strangers: they may use the reserved nodes, but not the reserved amounts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from phalanx.scheduler.cycle.amounts import PODS, Counts, Flags
from phalanx.scheduler.cycle.cluster import Cluster
from phalanx.scheduler.cycle.jobs import Job
from phalanx.scheduler.cycle.moments import moment
from phalanx.scheduler.cycle.specs import PodGroupSpec, ReservationSpec


class Window(NamedTuple):
    """A period in which a reservation is in force, from `begin_s` until just before `end_s`."""

    begin_s: float
    end_s: float


class Kept:
    """One reservation and what it keeps.

    `claim`: the amounts that the reservation keeps, as an array with a row for each node and a
    column for each resource. `whole`: a mask of the nodes that it keeps entirely.
    """

    def __init__(self, spec: ReservationSpec, cluster: Cluster) -> None:
        self.spec = spec
        self.windows = tuple(
            Window(begin, math.inf if end is None else end) for begin, end in spec.windows
        )
        self.claim: Counts = np.zeros_like(cluster.capacity)
        self.whole: Flags = np.zeros(len(cluster.nodes), dtype=np.bool_)
        for name, amounts in spec.places:
            node = cluster.node_index.get(name)
            if node is None:
                continue  # the node no longer exists
            self.whole[node] = not amounts
            self.claim[node] = cluster.capacity[node]
            if amounts:
                self.claim[node] = _part(cluster, node, cluster.dims.counts(amounts))
        self.nodes: Flags = np.asarray(self.claim.any(axis=1))

    def window_at(self, time_s: float) -> Window | None:
        """Return the window that contains this time."""
        return next((w for w in self.windows if w.begin_s <= time_s < w.end_s), None)

    def following(self, time_s: float) -> Window | None:
        """Return the window that contains this time; otherwise the first window after it."""
        return next((w for w in self.windows if time_s < w.end_s), None)

    def admits(self, group: PodGroupSpec) -> bool:
        """Whether a podgroup may name the reservation."""
        return may_name(self.spec, group.user, group.queue)


def may_name(spec: ReservationSpec, user: str, queue: str) -> bool:
    """Whether jobs of this user, in this queue, may run inside the reservation."""
    is_open = not (spec.users or spec.queues)
    return is_open or user in spec.users or queue in spec.queues


def owners(users: Sequence[str], queues: Sequence[str]) -> str:
    """Return the owners of a reservation in words."""
    named = [*(f"user {name}" for name in users), *(f"queue {name}" for name in queues)]
    return ", ".join(named[:5]) + (", ..." if len(named) > 5 else "") if named else "anybody"


def _part(cluster: Cluster, node: int, claim: Counts) -> Counts:
    """Return the amounts that a reservation claims on a node, with pod slots added.

    The claim gets a share of the node's slots: the largest share that it has of any other resource.
    """
    has = np.maximum(cluster.capacity[node], 1)
    claim[PODS] = math.ceil(float((claim / has).max()) * float(has[PODS]))
    part: Counts = np.minimum(claim, cluster.capacity[node])
    return part


class Calendar:
    """All reservations of a session, by name."""

    def __init__(self, cluster: Cluster, specs: Sequence[ReservationSpec], now: float) -> None:
        self._now = now
        self.kept: Mapping[str, Kept] = {spec.name: Kept(spec, cluster) for spec in specs}

    def host(self, job: Job) -> Kept | None:
        """Return the reservation inside which a job runs.

        Returns None if the job names no reservation, one that it may not use, or one for
        maintenance.
        """
        if not job.spec.reservation:
            return None
        kept = self.kept.get(job.spec.reservation)
        is_guest = kept is not None and not kept.spec.maintenance and kept.admits(job.spec)
        return kept if is_guest else None

    def ends(self, job: Job) -> float:
        """Return the latest time at which a job ends; infinite if it has no time limit. A job that
        does not run yet is assumed to start now.
        """
        group = job.spec
        if group.run_time_s is None:
            return math.inf
        runs = job.holding_count() > 0 and group.started is not None
        begun = group.started if runs and group.started is not None else self._now
        return max(begun + group.run_time_s, self._now)

    def in_words(self, kept: Kept) -> str:
        """Return the reservation's name and next window in words: `rack-work from 2026-11-23
        14:00:00 UTC`.
        """
        window = kept.following(self._now)
        if window is None:
            return kept.spec.name
        if window.begin_s > self._now:
            return f"{kept.spec.name} from {moment(window.begin_s)}"
        if math.isinf(window.end_s):
            return f"{kept.spec.name} until it is deleted"
        return f"{kept.spec.name} until {moment(window.end_s)}"
