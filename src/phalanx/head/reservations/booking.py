"""Picks the nodes of a reservation: the nodes that it names, or enough of the nodes that are free
at its times.

This module is pure arithmetic on other reservations, and on running work and the times by which it
must end. A part of a node includes the same share of all resources of the node, so that jobs find
CPUs for their GPUs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from phalanx.errors import JobCommandError
from phalanx.head.nodes.record import NodeRecord
from phalanx.head.reservations.record import Window
from phalanx.manifests.names import shown
from phalanx.manifests.quantities import batch_amounts, batch_name
from phalanx.model.lifecycle import ALIVE
from phalanx.model.nearest import nearest
from phalanx.model.reservations import Reservation
from phalanx.scheduler.cycle.moments import moment
from phalanx.scheduler.cycle.specs import PodGroupSpec, ReservationSpec, Snapshot

Places = dict[str, dict[str, float]]
_REASONS = 5
"""The largest number of unavailable nodes that an error names."""
_SHORTEST_ID = 4


class Run(NamedTuple):
    """Work on a node: its job, its resources there, the latest time at which it ends, and its
    reservation.
    """

    job: str
    amounts: Mapping[str, float]
    until: float
    reservation: str


class Book:
    """The nodes, the work that runs on them, and the parts of them that are reserved."""

    def __init__(
        self,
        nodes: Sequence[NodeRecord],
        take: Callable[[], Snapshot],
        reservations: Sequence[ReservationSpec],
    ) -> None:
        """`take` returns a snapshot with the running work and its start times. `reservations`: all
        other reservations.
        """
        self._nodes = nodes
        self._take = take
        self._reserved = reservations

    @cached_property
    def _runs(self) -> dict[str, list[Run]]:
        """The work that runs on each node."""
        snapshot = self._take()
        groups = {(g.namespace, g.name): g for g in snapshot.podgroups}
        found: dict[str, list[Run]] = {}
        for task in snapshot.tasks:
            group = groups.get((task.namespace, task.podgroup))
            if task.node and group is not None:
                until = _until(group, snapshot.now)
                run = Run(group.uid, dict(task.shape.request), until, group.reservation)
                found.setdefault(task.node, []).append(run)
        return found

    def begin(
        self, spec: Reservation, start: float, latest: float, length_s: float | None
    ) -> float:
        """Return the earliest time, not before `start`, at which the reservation can begin. Raises
        JobCommandError if it cannot begin by `latest`.
        """
        times = {start}
        for runs in self._runs.values():
            times.update(run.until for run in runs)
        for one in self._reserved:
            times.update(end for _, end in one.windows if end is not None)
        fault: JobCommandError | None = None
        for time in sorted(time for time in times if start <= time <= latest):
            try:
                self.places(spec, [(time, None if length_s is None else time + length_s)])
            except JobCommandError as error:
                fault = fault or error
            else:
                return time
        assert fault is not None, "its start was tried"
        raise fault

    def places(
        self, spec: Reservation, windows: Sequence[Window], kept: Mapping[str, object] = {}
    ) -> Places:
        """Return the amounts that the reservation gets on each node, the same in all its windows.
        If the reservation does not name its nodes, nodes in `kept` are preferred. Raises
        JobCommandError with the reasons if there is not enough.
        """
        if spec.nodes or (spec.labels and not spec.node_count and not spec.amounts):
            named = self.named(spec)
            refused = [why for node in named if (why := self._why_not(spec, node, windows))]
            if refused:
                what = "nodes" if spec.nodes else "labels"
                self._refuse(spec, what, _list(spec.nodes or _labels(spec)), refused)
            return {node.node_id: {} for node in named}
        candidates = sorted(
            (node for node in self.labelled(spec) if node.state == ALIVE),
            key=lambda node: (node.node_id not in kept, *_richness(node)),
        )
        if spec.node_count:
            return self._whole_nodes(spec, candidates, windows)
        return self._parts(spec, candidates, windows)

    def again(
        self, spec: Reservation, windows: Sequence[Window], kept: Mapping[str, Mapping[str, float]]
    ) -> Places:
        """Return the places after nodes came, left or were renamed. There may be fewer places than
        before if no other nodes are available.
        """
        if spec.nodes or (spec.labels and not spec.node_count and not spec.amounts):
            found = (self._called(word) for word in spec.nodes)
            nodes = self.labelled(spec) if spec.labels else [n for some in found for n in some]
            return {node.node_id: {} for node in nodes}
        here = {node.node_id for node in self._nodes}
        left = {node: dict(has) for node, has in kept.items() if node in here}
        if len(left) == len(kept):
            return left
        try:
            return self.places(spec, windows, left)
        except JobCommandError:
            return left

    # ---- which nodes -------------------------------------------------------------------------

    def named(self, spec: Reservation) -> list[NodeRecord]:
        """Return the nodes that the reservation names or, if it names none, the nodes with its
        labels. Raises JobCommandError for an unknown name or label.
        """
        if not spec.nodes:
            return self.labelled(spec)
        found: dict[str, NodeRecord] = {}
        for word in spec.nodes:
            nodes = self._called(word)
            if not nodes:
                names = [node.hostname or node.node_id[:12] for node in self._nodes]
                raise JobCommandError(
                    f"reservation {spec.name}: nodes={shown(word)}: no node has this name"
                    f"{nearest(word, names)}; there are {_list(sorted(names)) or 'none'}"
                )
            found |= {node.node_id: node for node in nodes}
        return list(found.values())

    def labelled(self, spec: Reservation) -> list[NodeRecord]:
        """Return the nodes with the reservation's labels. Raises JobCommandError if no node has
        them.
        """
        wanted = dict(spec.labels)
        found = [n for n in self._nodes if wanted.items() <= n.labels.items()]
        if not found:
            have = f"has the labels {_list(_labels(spec))}" if wanted else "exists"
            raise JobCommandError(f"reservation {spec.name}: no node {have}")
        return found

    def _name(self, node: NodeRecord) -> str:
        is_only = sum(one.hostname == node.hostname for one in self._nodes) == 1
        return node.hostname if node.hostname and is_only else node.node_id[:12]

    def _called(self, word: str) -> list[NodeRecord]:
        exact = [n for n in self._nodes if word in (n.node_id, n.hostname, n.host)]
        is_id = len(word) >= _SHORTEST_ID
        return exact or [n for n in self._nodes if is_id and n.node_id.startswith(word)]

    def _whole_nodes(
        self, spec: Reservation, nodes: Sequence[NodeRecord], windows: Sequence[Window]
    ) -> Places:
        if spec.node_count > len(nodes):
            self._refuse_more(spec, "nodeCount", spec.node_count, f"{len(nodes)} such nodes")
        refused: list[str] = []
        found: Places = {}
        for node in nodes:
            if len(found) == spec.node_count:
                break
            why = self._why_not(spec, node, windows)
            if why:
                refused.append(why)
            else:
                found[node.node_id] = {}
        if len(found) < spec.node_count:
            self._refuse(spec, "nodeCount", str(spec.node_count), refused)
        return found

    def _parts(
        self, spec: Reservation, nodes: Sequence[NodeRecord], windows: Sequence[Window]
    ) -> Places:
        house, amount = spec.amounts[0]
        resource, rest = batch_name(house), amount
        has = sum(node.totals.get(house, 0.0) for node in nodes)
        if amount > has:
            self._refuse_more(spec, f"amounts.{house}", amount, f"{has:g} of {house}")
        refused: list[str] = []
        found: Places = {}
        for node in nodes:
            room = self._room(spec, node, resource, windows)
            taken = min(room, rest)
            if taken > 0:
                found[node.node_id] = _part_of(dict(batch_amounts(node.totals)), resource, taken)
                rest -= taken
            if taken < dict(batch_amounts(node.totals)).get(resource, 0.0):
                refused += filter(None, [self._why_not(spec, node, windows)])
            if rest <= 0:
                return found
        self._refuse(spec, f"amounts.{house}", f"{amount:g}", refused)
        return {}

    # ---- free resources ----------------------------------------------------------------------

    def _meeting(
        self, spec: Reservation, node: str, windows: Sequence[Window]
    ) -> Iterable[tuple[ReservationSpec, Mapping[str, float]]]:
        """Yield the other reservations that keep a part of the node in any of these windows."""
        for one in () if spec.maintenance else self._reserved:
            has = dict(one.places).get(node)
            if has is not None and any(_meet(a, b) for a in windows for b in one.windows):
                yield one, dict(has)

    def _running(self, spec: Reservation, node: str, windows: Sequence[Window]) -> list[Run]:
        """Return the work that may still be on the node when the reservation begins, without the
        reservation's own jobs.
        """
        if spec.ignores_jobs or not windows:
            return []
        runs = (run for run in self._runs.get(node, ()) if run.reservation != spec.name)
        begin, _ = windows[0]
        return [run for run in runs if run.until > begin]

    def _why_not(self, spec: Reservation, node: NodeRecord, windows: Sequence[Window]) -> str:
        """Return why the reservation cannot have the whole node; "" if the reservation can have the
        node.
        """
        name = self._name(node)
        for one, _ in self._meeting(spec, node.node_id, windows):
            return f"{name} is kept by reservation {one.name} at that time"
        for run in self._running(spec, node.node_id, windows):
            job = run.job.removeprefix("default/")
            if math.isinf(run.until):
                return f"{job} runs on {name} and has no time limit"
            return f"{job} runs on {name} until {moment(run.until)} at the latest"
        return ""

    def _room(
        self, spec: Reservation, node: NodeRecord, resource: str, windows: Sequence[Window]
    ) -> float:
        """Return how much of a resource the reservation can have on a node, if it takes the same
        share of all other resources there.
        """
        has = dict(batch_amounts(node.totals))
        most = has.get(resource, 0.0)
        taken: dict[str, float] = {}
        for _, amounts in self._meeting(spec, node.node_id, windows):
            for name, amount in (amounts or has).items():
                taken[name] = taken.get(name, 0.0) + amount
        for run in self._running(spec, node.node_id, windows):
            for name, amount in run.amounts.items():
                taken[name] = taken.get(name, 0.0) + amount
        parts = [1 - taken.get(name, 0.0) / amount for name, amount in has.items() if amount > 0]
        return math.floor(max(min(parts, default=0.0), 0.0) * most + 1e-9)

    # ---- refusing ----------------------------------------------------------------------------

    def _refuse(self, spec: Reservation, field: str, value: str, why: Sequence[str]) -> None:
        more = f", and {len(why) - _REASONS} more" if len(why) > _REASONS else ""
        raise JobCommandError(
            f"reservation {spec.name}: {field}={value}: it cannot be reserved: "
            f"{'; '.join(why[:_REASONS])}{more}. Choose another time, other nodes"
            + ("" if spec.ignores_jobs else ", or ignoreJobs if jobs may run on into it")
        )

    def _refuse_more(self, spec: Reservation, field: str, value: float, there: str) -> None:
        labels = f" with the labels {_list(_labels(spec))}" if spec.labels else ""
        raise JobCommandError(
            f"reservation {spec.name}: {field}={value:g}: the cluster has {there}{labels}; "
            "ask for at most that"
        )


def _until(group: PodGroupSpec, now: float) -> float:
    if group.run_time_s is None:
        return math.inf
    return max((now if group.started is None else group.started) + group.run_time_s, now)


def _meet(one: Window, other: Window) -> bool:
    (begin, end), (other_begin, other_end) = one, other
    return (other_end is None or begin < other_end) and (end is None or other_begin < end)


def _part_of(has: Mapping[str, float], resource: str, amount: float) -> dict[str, float]:
    part = amount / has[resource]
    return {n: amount if n == resource else math.floor(x * part) + 0.0 for n, x in has.items()}


def _richness(node: NodeRecord) -> tuple[float, str]:
    """Return the sort key by which nodes are chosen: nodes with fewer GPUs first."""
    return node.totals.get("GPU", 0.0), node.hostname + node.node_id


def _labels(spec: Reservation) -> list[str]:
    return [f"{key}={value}" for key, value in spec.labels]


def _list(words: Sequence[str]) -> str:
    few = ", ".join(shown(word).strip("'") for word in words[:_REASONS])
    return few + (", ..." if len(words) > _REASONS else "")
