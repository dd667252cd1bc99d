"""The places of guaranteed jobs in cells of their queues, and the work that must leave for them.

A job gets places in this order of preference: without evictions, by evicting opportunistic work,
and by also evicting work of lower priority in its own queue. As little work as possible is evicted
in its own queue, and the least deserving work first.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Protocol

import numpy as np

from phalanx.scheduler.cycle import jobs as j
from phalanx.scheduler.cycle.amounts import Counts, Flags
from phalanx.scheduler.cycle.equivalence_class import EquivalenceClass
from phalanx.scheduler.cycle.jobs import Job
from phalanx.scheduler.cycle.places import Places, PlacesAsk
from phalanx.scheduler.cycle.rows import Indexes
from phalanx.scheduler.cycle.session import Session
from phalanx.scheduler.plugin_parts.card_sets import CARD
from phalanx.scheduler.plugin_parts.cell_search import Rooms, Want, find
from phalanx.scheduler.plugin_parts.cells import Cells

_STARTED = (j.RUNNING, j.BOUND)
"""The statuses of work that may be evicted: it runs, or is on its way to its node."""
_TRIES = 32
"""How many times places are looked for, if other plugins protect work that would have to leave."""
_FEW = 32
"""If at most this many tasks of the own queue must leave, the search checks for each of them
whether it can stay.
"""


class Work(Protocol):
    """The plugin's knowledge of tasks."""

    def owner(self, t: int) -> str:
        """Return the queue in whose cells a task must run; "" for opportunistic work."""
        ...

    def can_go(self, t: int) -> bool:
        """Whether opportunistic work can be evicted."""
        ...


def units_of(eq_class: EquivalenceClass, gpu: int) -> int:
    """Return the units of GPUs that a task of the class takes. More than half of a GPU counts as a
    whole one, since two such shares do not fit on one GPU.
    """
    whole, share = divmod(int(eq_class.request[gpu]), CARD)
    return (whole + (share > CARD // 2)) * CARD + (share if share <= CARD // 2 else 0)


class CellBinding:
    """Finds the places of guaranteed jobs in one cycle."""

    def __init__(self, session: Session, cells: Cells, gpu: int, name: str, work: Work) -> None:
        """`name`: the plugin's name."""
        self._session = session
        self._cluster = session.cluster
        self._cells = cells
        self._gpu = gpu
        self._name = name
        self._work = work
        self._loose: Counts | None = None
        """The amounts of work on each node that may be evicted for guaranteed jobs."""
        self._loose_tasks: dict[int, list[int]] = {}
        """The tasks of the work that may be evicted for guaranteed jobs, by queue."""
        self._is_loose: set[int] = set()
        self._vain: dict[Hashable, int] = {}
        """For each kind of question that found no places: the version of the cluster at that
        time.
        """
        self._guaranteed: dict[int, list[int]] | None = None
        """The running tasks of guaranteed jobs that may be evicted, by queue."""
        self.reserved: Flags = np.zeros(len(session.cluster.nodes), dtype=np.bool_)
        """Nodes that opportunistic work must not enter, because work there is evicted later in this
        cycle for a job that waits.
        """
        self._given: dict[int, int] = {}
        """The nodes in the last answer, by task."""

    def note(self, t: int, node: int, sign: int) -> None:
        """Record that a task of opportunistic work was evicted, or is back."""
        if self._loose is not None and t in self._is_loose:
            self._loose[node] += sign * self._cluster.eq_class[t].request

    def has_given(self, t: int, nodes: Indexes) -> bool:
        """Whether the last answer of `places` included the task and used all of `nodes`. If `nodes`
        has a single node, the answer must have given this node to the task.
        """
        if t not in self._given:
            return False
        if len(nodes) == 1:
            return self._given[t] == int(nodes[0])
        return len(nodes) <= len(self._given) and {*nodes.tolist()} <= {*self._given.values()}

    def places(self, ask: PlacesAsk) -> Places:
        """Return the places of tasks, and remember them."""
        search = _Search(self._session, self._cells, self._gpu, ask)
        kind = (search.kind, ask.job.priority, ask.job.standing, ask.evicts, ask.within.tobytes())
        if not ask.refused and self._vain.get(kind) == self._cluster.version:
            nodes = [-1] * len(ask.tasks)
            victims: list[int] = []
        else:
            nodes, victims = self._places(ask, search)
            if max(nodes) < 0:
                self._vain[kind] = self._cluster.version
            if -1 in nodes and self._may_reserve(ask):
                self._reserve(self._evicting(ask, search)[0])
        self._given = dict(zip(ask.tasks, nodes, strict=True))
        return Places(nodes=nodes, among=search.among(), chooser=self._name, victims=victims)

    def _places(self, ask: PlacesAsk, search: _Search) -> tuple[list[int], list[int]]:
        """Return a node for each task (-1 for none), and the work that must leave. If evictions are
        not allowed or would not be enough, no work is evicted.
        """
        cluster = self._cluster
        idle = np.minimum(cluster.idle, cluster.future) if cluster.is_apart else cluster.future
        found = search.find(idle, idle)
        if not _all(found) and cluster.is_apart:
            found = search.find(cluster.future, cluster.future)
        return self._evicting(ask, search) if ask.evicts and not _all(found) else (found, [])

    def _evicting(self, ask: PlacesAsk, search: _Search) -> tuple[list[int], list[int]]:
        """Return places for the tasks, and the work that must leave for them. If not all tasks get
        places, return no place for any.
        """
        cluster = self._cluster
        room = cluster.future + self._room_of_loose(ask.job)
        for _ in range(_TRIES):
            own: list[int] = []
            found = search.find(cluster.future, room)
            if not _all(found):
                own = self._least(search, room, self._lower(ask.job, ask.tasks[0]))
                found = search.find(cluster.future, room, own)
            if not _all(found):
                break
            victims, unfit = self._victims(ask, found, own)
            if unfit < 0:
                return found, victims
            search.refuse(unfit)
        return [-1] * len(ask.tasks), []

    def _may_reserve(self, ask: PlacesAsk) -> bool:
        """Whether an action will ask for the places of these tasks later in the cycle, and evict
        work there.
        """
        session, job = self._session, ask.job
        if ask.evicts or job.has_topology() or "reclaim" not in session.config.actions:
            return False
        policies = {session.cluster.tasks[t].preemption_policy for t in ask.tasks}
        return session.job_starving(job) and "Never" not in policies

    def _reserve(self, nodes: Sequence[int]) -> None:
        if _all(nodes) and not self.reserved[list(nodes)].all():
            self.reserved[list(nodes)] = True
            self._cluster.touch(nodes)

    # -- opportunistic work ---------------------------------------------------------------------

    def _room_of_loose(self, job: Job) -> Counts:
        """Return, for each node, the amounts of the opportunistic work that may be evicted for the
        job.
        """
        if self._loose is None:
            self._loose = self._find_loose()
        cluster = self._cluster
        room = self._loose.copy("F")
        for t in self._loose_tasks.get(job.queue, ()):
            if cluster.status[t] in _STARTED and not self._may_go(job, t):
                room[cluster.node_of[t]] -= cluster.eq_class[t].request
        return room

    def _find_loose(self) -> Counts:
        cluster, work = self._cluster, self._work
        room = np.zeros_like(cluster.future)
        for t, status in enumerate(cluster.status):
            if status in _STARTED and work.can_go(t) and not work.owner(t):
                self._is_loose.add(t)
                self._loose_tasks.setdefault(self._session.job(t).queue, []).append(t)
                room[cluster.node_of[t]] += cluster.eq_class[t].request
        return room

    def _may_go(self, job: Job, t: int) -> bool:
        """Whether this opportunistic work may be evicted for the job. If both are in one queue,
        their priorities decide.
        """
        other = self._session.job(t)
        return other.queue != job.queue or other.yields_to(job)

    def _victims(
        self, ask: PlacesAsk, nodes: Sequence[int], own: Sequence[int]
    ) -> tuple[list[int], int]:
        """Return the work that must leave so that the tasks have room on their nodes, and -1. If
        other plugins protect too much work on one of the nodes, return no work, and that node.
        `own`: work of the job's queue that leaves in any case.
        """
        cluster = self._cluster
        tasks: dict[int, list[int]] = {}
        for t, node in zip(ask.tasks, nodes, strict=True):
            tasks.setdefault(node, []).append(t)
        victims = list(own)
        for node, there in tasks.items():
            lack = sum(cluster.eq_class[t].request for t in there) - cluster.future[node]
            lack -= sum(cluster.eq_class[v].request for v in own if cluster.node_of[v] == node)
            chosen = self._chosen(there[0], node, lack)
            if chosen is None:
                return [], node
            victims += chosen
        return victims, -1

    def _chosen(self, t: int, node: int, lack: Counts) -> list[int] | None:
        """Return the opportunistic work on the node that must leave so that the node has enough
        room; None if that is impossible.
        """
        cluster, session = self._cluster, self._session
        if not (lack > 0).any():
            return []
        job = session.job(t)
        loose = [
            v
            for v in sorted(cluster.on_node[node])
            if v in self._is_loose and cluster.status[v] in _STARTED and self._may_go(job, v)
        ]
        others = [v for v in loose if session.job(v).queue != job.queue]
        mine = [v for v in loose if session.job(v).queue == job.queue]
        victims = session.hooks.intersect("reclaimable", t, others) if others else []
        victims += session.hooks.intersect("preemptable", t, mine) if mine else []
        chosen: list[int] = []
        for v in session.sort_victims(victims, t):
            chosen.append(v)
            lack = lack - cluster.eq_class[v].request
            if not (lack > 0).any():
                break
        else:
            return None
        for v in tuple(chosen[:-1]):
            spared = lack + cluster.eq_class[v].request
            if not (spared > 0).any():
                chosen.remove(v)
                lack = spared
        return chosen

    # -- guaranteed work of the same queue ------------------------------------------------------

    def _lower(self, job: Job, t: int) -> list[int]:
        """Return guaranteed work of lower priority in the job's queue that other plugins allow to
        be evicted, the least deserving first.
        """
        cluster, session, work = self._cluster, self._session, self._work
        if self._guaranteed is None:
            self._guaranteed = {}
            for v, status in enumerate(cluster.status):
                if status in _STARTED and cluster.tasks[v].preemptable and work.owner(v):
                    self._guaranteed.setdefault(session.job(v).queue, []).append(v)
        lower = [
            v
            for v in self._guaranteed.get(job.queue, ())
            if cluster.status[v] in _STARTED and session.job(v).yields_to(job)
        ]
        victims = session.hooks.intersect("preemptable", t, lower) if lower else []
        return session.sort_victims(victims, t)

    def _least(self, search: _Search, room: Counts, lower: Sequence[int]) -> list[int]:
        """Return as few tasks of `lower` as possible whose eviction gives all tasks places. Return
        nothing if even the eviction of all of `lower` is not enough.
        """
        future = self._cluster.future

        def suffices(gone: Sequence[int]) -> bool:
            return _all(search.find(future, room, gone))

        if not lower or not suffices(lower):
            return []
        least, most = 1, len(lower)
        while least < most:
            half = (least + most) // 2
            if suffices(lower[:half]):
                most = half
            else:
                least = half + 1
        chosen = list(lower[:most])
        for v in tuple(chosen[:-1]) if most <= _FEW else ():
            if suffices([u for u in chosen if u != v]):
                chosen.remove(v)
        return chosen


class _Search:
    """The search that answers one question for places."""

    def __init__(self, session: Session, cells: Cells, gpu: int, ask: PlacesAsk) -> None:
        self._cluster = session.cluster
        self._cells = cells
        self._gpu = gpu
        self._owner = session.cluster.queues[ask.job.queue].name
        self._count = len(ask.tasks)
        self.kind = (ask.job.queue, *(self._cluster.eq_class[t].index for t in ask.tasks))
        """Equal for questions of one queue about tasks of the same classes."""
        of_class: dict[int, list[int]] = {}
        for i, t in enumerate(ask.tasks):
            of_class.setdefault(self._cluster.eq_class[t].index, []).append(i)
        self._at = list(of_class.values())
        """The positions of the tasks of each class."""
        self._wants = [self._want(session, ask, [ask.tasks[i] for i in at]) for at in self._at]
        for node in ask.refused:
            self.refuse(node)

    def _want(self, session: Session, ask: PlacesAsk, tasks: Sequence[int]) -> Want:
        eq_class = self._cluster.eq_class[tasks[0]]
        about = session.placer.ask(tasks[0])
        allowed = session.placer.static(about) & session.placer.curable(about)
        allowed &= ask.within
        units = units_of(eq_class, self._gpu)
        if units:
            allowed &= self._cells.has_cards
        noted = [self._cluster.nominated.get(t, -1) for t in tasks]
        return Want(units, eq_class.request[eq_class.asked], eq_class.asked, allowed, noted)

    def among(self) -> int:
        """Return the number of nodes that other plugins allow for the first task."""
        return int(np.count_nonzero(self._wants[0].allowed))

    def refuse(self, node: int) -> None:
        """Look for no more places on a node."""
        for want in self._wants:
            want.allowed[node] = False

    def find(self, now: Counts, room: Counts, gone: Sequence[int] = ()) -> list[int]:
        """Return a node for each task, or -1 where there is none. `now`: the free amounts on each
        node. `room`: the same with the amounts of work that may leave. `gone`: guaranteed work of
        the queue that leaves in any case.
        """
        cluster, cells = self._cluster, self._cells
        if gone:
            now, room = now.copy("F"), room.copy("F")
        left = sorted({cluster.node_of[v] for v in gone})
        for v in gone:
            eq_class, node = cluster.eq_class[v], cluster.node_of[v]
            cells.take(self._owner, node, -units_of(eq_class, self._gpu))
            now[node] += eq_class.request
            room[node] += eq_class.request
        found = find(cells, self._owner, self._wants, Rooms(now, room, self._gpu, left))
        for v in gone:
            units = units_of(cluster.eq_class[v], self._gpu)
            cells.take(self._owner, cluster.node_of[v], units)
        nodes = [-1] * self._count
        for at, chosen in zip(self._at, found, strict=True):
            for i, node in zip(at, chosen, strict=True):
                nodes[i] = node
        return nodes


def _all(nodes: Sequence[int]) -> bool:
    return -1 not in nodes
