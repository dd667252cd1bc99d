"""The search for nodes: masks and scores for each class, which are computed again only after
changes.

Equal tasks are placed together. If they were placed one by one, each task would go to the best
node, and only that node's answers would change. So, for the best few nodes, the scores that the
second, third and later task on the node would get are computed in advance ("unrolled") and merged
in order. The outcome is the same as if the tasks were placed one by one.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterator, Sequence

import numpy as np

from phalanx.scheduler.cycle.amounts import Counts, Flags, Vector
from phalanx.scheduler.cycle.cluster import Cluster
from phalanx.scheduler.cycle.equivalence_class import EquivalenceClass
from phalanx.scheduler.cycle.hooks import HookRegistry
from phalanx.scheduler.cycle.jobs import Job
from phalanx.scheduler.cycle.plan import Choice
from phalanx.scheduler.cycle.rows import ALWAYS, BY_ONE, NEVER, Ask, Filter, Indexes, Rows, Scorer

_WIDTH, _DEPTH = 96, 48
"""The number of nodes that are unrolled in one step, and the number of tasks on each of them."""
_SHALLOW = 2
"""How many tasks on each node are unrolled at first. This is enough if each node gets one task."""
_FEW = 16
"""The largest number of nodes that are searched one by one."""
_OUT = -np.inf


class Answers:
    """The masks and scores of all nodes for one class of tasks.

    The masks are valid for version `mark` of the cluster. The scores are valid for version `seen`,
    except for nodes that are marked as stale. A node is scored only when it has to be ranked,
    because most waiting classes find no open node. Evictions rank nodes without regard to the
    masks.
    """

    __slots__ = ("fixed", "mark", "open", "room", "scores", "seen", "stale", "static", "steady")

    def __init__(self, n: int) -> None:
        self.static: Flags = np.ones(n, dtype=np.bool_)
        """A mask of the nodes that pass all filters whose answers never change."""
        self.fixed: Vector = np.zeros(n)
        """For each node, the sum of the scores that never change."""
        self.open: Flags = np.zeros(n, dtype=np.bool_)
        """A mask of the nodes that pass every filter and have enough room, now or once evictions
        end.
        """
        self.room: Flags = self.open
        """A mask of the open nodes with enough room now. While idle and future room are equal, it
        is the same object as `open`.
        """
        self.scores: Vector = np.zeros(n)
        """The score of each node. It is valid only where `steady` is true and `stale` is false."""
        self.stale: Flags = np.ones(n, dtype=np.bool_)
        """A mask of the nodes that have changed since they were scored."""
        self.mark = self.seen = -1
        self.steady = True


class Placer:
    """Finds nodes, and the best node, for a session's tasks by the rules of the session's
    plugins.
    """

    def __init__(self, cluster: Cluster, hooks: HookRegistry) -> None:
        self._cluster = cluster
        self._hooks = hooks
        self._known: dict[tuple[int, int], Answers] = {}
        self._rules: tuple[list[Filter], list[Scorer], str] | None = None
        self._unrollable: dict[int, bool] = {}
        self._incurable: dict[tuple[int, int], tuple[Flags, Indexes, list[Filter]]] = {}
        self._filters: dict[int, list[Filter]] = {}
        self._scorers: dict[int, list[Scorer]] = {}
        self._static: dict[tuple[int, int], Flags] = {}
        self._never_changing: dict[int, tuple[list[Filter], str]] = {}
        self._chooser = ""
        """The plugin that chose the last node itself, without scores; "" if none did."""
        self._kinds: dict[tuple[Hashable, ...], int] = {}
        """A number for each kind of job. Filters of the scope "kind" answer alike for all jobs of
        one kind.
        """

    def ask(self, t: int, domain: str = "") -> Ask:
        cluster = self._cluster
        return Ask(
            task=t,
            eq_class=cluster.eq_class[t],
            job=cluster.jobs[cluster.job_of[t]],
            sub=cluster.sub_of(t),
            domain=domain,
        )

    # -- rules --------------------------------------------------------------------------------

    def rules(self) -> tuple[list[Filter], list[Scorer], str]:
        """Return the filters, the scorers, and a scope within which all of them answer alike (see
        `_narrowest`).
        """
        if self._rules is None:
            filters: list[Filter] = self._hooks.all("filter")  # type: ignore[assignment]
            scorers: list[Scorer] = self._hooks.all("scorer")  # type: ignore[assignment]
            scope = _narrowest({x.scope for x in filters} | {x.scope for x in scorers})
            self._rules = (filters, scorers, scope)
            if not scope and all(f.lasting for f in filters) and all(s.lasting for s in scorers):
                self._known = self._cluster.answers
        return self._rules

    def key(self, eq_class: EquivalenceClass, job: Job) -> tuple[int, int]:
        """Return the key under which answers for the class and the job are kept. Jobs with the same
        key get the same answers, unless the answers depend on the single task.
        """
        return (eq_class.index, self._scope_key(self.rules()[2], job, -1))

    def can_unroll(self, eq_class: EquivalenceClass) -> bool:
        """Whether the scores of a node can be computed in advance for a growing number of tasks of
        the class on it.
        """
        known = self._unrollable.get(eq_class.index)
        if known is None:
            known = self._unrollable[eq_class.index] = self._changes_below(BY_ONE, eq_class)
        return known

    def _changes_below(self, level: int, eq_class: EquivalenceClass) -> bool:
        filters, scorers, scope = self.rules()
        return (
            scope != "task"
            and not self._hooks.all("best_node")
            and all(x.changes(eq_class) < level for x in filters)
            and all(x.changes(eq_class) < level for x in scorers)
        )

    def static(self, ask: Ask) -> Flags:
        """Return a mask of the nodes that pass every filter whose answer for the asker's class
        never changes.
        """
        key = self.static_key(ask.eq_class, ask.job, ask.task)
        known = self._static.get(key)
        if known is None:
            n = len(self._cluster.nodes)
            known = self._static[key] = np.ones(n, dtype=np.bool_)
            rows = Rows(self._cluster, np.arange(n))
            for f in self._never(ask.eq_class)[0]:
                known &= f.passes(rows, ask)
        return known

    def static_key(self, eq_class: EquivalenceClass, job: Job, task: int) -> tuple[int, int]:
        """Return the key under which `static` answers are kept. Tasks with the same key have the
        same static nodes.
        """
        return (eq_class.index, self._scope_key(self._never(eq_class)[1], job, task))

    def _never(self, eq_class: EquivalenceClass) -> tuple[list[Filter], str]:
        """Return the filters whose answers for the class never change, and a scope within which
        all of these filters answer alike (see `_narrowest`).
        """
        found = self._never_changing.get(eq_class.index)
        if found is None:
            filters = [f for f in self.rules()[0] if f.changes(eq_class) == NEVER]
            scope = _narrowest({f.scope for f in filters})
            found = self._never_changing[eq_class.index] = (filters, scope)
        return found

    def answers(self, ask: Ask) -> Answers:
        """Return the answers for the asker's class, with up-to-date masks."""
        known = self._known_of(ask)
        version, before = self._cluster.version, known.mark
        if before < 0 or not known.steady:
            index = np.arange(len(self._cluster.nodes))
        elif before == version:
            return known
        else:
            index = np.flatnonzero(self._cluster.changed_at > before)
        known.mark = version
        self._refresh(known, index, ask)
        if known.seen == before:
            known.stale[index] = True
            known.seen = version
        return known

    def _known_of(self, ask: Ask) -> Answers:
        """Return the answers for the asker's class as they were last computed. If they were never
        computed, return new answers without masks and scores.
        """
        filters, scorers, scope = self.rules()
        key = (ask.eq_class.index, self._scope_key(scope, ask.job, ask.task))
        known = self._known.get(key)
        if known is None:
            n = len(self._cluster.nodes)
            known = self._known[key] = Answers(n)
            rows = Rows(self._cluster, np.arange(n))
            for f in filters:
                if f.changes(ask.eq_class) == NEVER:
                    known.static &= f.passes(rows, ask)
            for s in scorers:
                if s.changes(ask.eq_class) == NEVER:
                    known.fixed += s.score(rows, ask)
            known.steady = self._changes_below(ALWAYS, ask.eq_class)
        return known

    def _scope_key(self, scope: str, job: Job, task: int) -> int:
        if not scope:
            return -1
        if scope == "kind":
            kind = tuple(f.kind(job) for f in self.rules()[0] if f.kind is not None)
            return self._kinds.setdefault(kind, len(self._kinds))
        return {"queue": job.queue, "job": job.index, "task": task}[scope]

    def _refresh(self, known: Answers, index: Indexes, ask: Ask) -> None:
        cluster = self._cluster
        rows = Rows(cluster, index)
        passes = known.static.take(index)
        passes &= _holds(cluster.future, index, ask.eq_class)
        for f in self._moving_filters(ask.eq_class):
            passes &= f.passes(rows, ask)
        if cluster.is_apart and known.room is known.open:
            known.room = known.open.copy()
        known.open[index] = passes
        if cluster.is_apart:
            passes &= _holds(cluster.idle, index, ask.eq_class)
            passes &= self._pass_beside_leaving(rows, ask)
        if known.room is not known.open:
            known.room[index] = passes

    def _rescore(self, known: Answers, among: Flags, ask: Ask) -> None:
        """Score again those of the given nodes that have changed since their last score."""
        version = self._cluster.version
        if known.seen != version:
            known.stale[self._cluster.changed_at > known.seen] = True
            known.seen = version
        stale = np.flatnonzero(known.stale & among)
        if len(stale):
            known.scores[stale] = self._scored(known, Rows(self._cluster, stale), ask)
            known.stale[stale] = False

    def _scored(self, known: Answers, rows: Rows, ask: Ask) -> Vector:
        fixed = known.fixed.take(rows.index)
        scorers = self._moving_scorers(ask.eq_class)
        if not scorers:
            return fixed
        moving = scorers[0].score(rows, ask)
        for s in scorers[1:]:
            # a scorer may keep the array that it returned, so += is forbidden
            moving = moving + s.score(rows, ask)
        fixed += moving
        return fixed

    def _moving_scorers(self, eq_class: EquivalenceClass) -> list[Scorer]:
        """Return scorers whose answers for the class change within a cycle."""
        found = self._scorers.get(eq_class.index)
        if found is None:
            found = [s for s in self.rules()[1] if s.changes(eq_class) != NEVER]
            self._scorers[eq_class.index] = found
        return found

    def _moving_filters(self, eq_class: EquivalenceClass) -> list[Filter]:
        """Return filters whose answers for the class change within a cycle."""
        found = self._filters.get(eq_class.index)
        if found is None:
            found = [f for f in self.rules()[0] if f.changes(eq_class) != NEVER]
            self._filters[eq_class.index] = found
        return found

    # -- choosing -----------------------------------------------------------------------------

    def choice(self, ask: Ask, node: int, candidates: Flags) -> Choice:
        """Return the plugins' scores for the node that was just chosen. Call this before anything
        is placed there. `candidates`: the nodes from which it was chosen.
        """
        names = self._cluster.node_names
        of_itself = self.answers(ask).steady
        index = np.array([node]) if of_itself else np.flatnonzero(candidates)
        at = 0 if of_itself else int(np.searchsorted(index, node))
        rows = Rows(self._cluster, index)
        scores: dict[str, float] = {}
        for plugin, scorer in self._hooks.named("scorer"):
            scores[plugin] = scores.get(plugin, 0.0) + float(scorer.score(rows, ask)[at])
        among = int(np.count_nonzero(candidates))
        return Choice(node=names[node], among=among, scores=scores, chooser=self._chooser)

    def best(self, ask: Ask, mask: Flags) -> int:
        """Return the best node of the mask; -1 if the mask is empty.

        The best node is the one that a plugin chooses. If no plugin chooses a node, it is the one
        with the highest score; among equals, the first by name.
        """
        self._chooser = ""
        nodes = np.flatnonzero(mask)
        if len(nodes) == 0:
            return -1
        if len(nodes) == 1 and not self._hooks.all("best_node"):
            return int(nodes[0])
        scores = self._scores(ask, nodes, mask)
        for plugin, choose in self._hooks.named("best_node"):
            chosen = choose(ask.task, nodes, scores)
            if chosen is not None and chosen >= 0:
                self._chooser = plugin
                return int(chosen)
            if chosen is not None:
                break
        return int(nodes[int(np.argmax(scores))])

    def _scores(self, ask: Ask, nodes: Indexes, mask: Flags) -> Vector:
        """Return the scores of these nodes, which must be in the mask.

        Scorers that compare nodes with each other compare only these.
        """
        known = self._known_of(ask)
        if known.steady:
            self._rescore(known, mask, ask)
            return known.scores.take(nodes)
        return self._scored(known, Rows(self._cluster, nodes), ask)

    def unroll(self, ask: Ask, count: int, mask: Flags) -> list[int]:
        """Return nodes for up to `count` tasks of the asker's class, which are placed one after
        another in idle room.

        The list ends early where the unrolled scores do not determine the next node. The caller
        places the tasks on the listed nodes and calls again.
        """
        known = self.answers(ask)
        fits = known.room & mask
        fitting = np.flatnonzero(fits)
        if len(fitting) == 0:
            return []
        self._rescore(known, fits, ask)
        heads = known.scores.take(fitting)
        if count == 1:
            return [int(fitting[np.argmax(heads)])]
        chosen, other = _top(heads, min(_WIDTH, count))
        bar = (np.inf, 0) if other < 0 else (-float(heads[other]), int(fitting[other]))
        most = min(_DEPTH, count)
        depth = min(_SHALLOW, most)
        ladders = self._ladders(ask, fitting[chosen], depth)
        heap = [(-ladder[0], node, i, 0) for i, (node, ladder) in enumerate(ladders)]
        heapq.heapify(heap)
        nodes: list[int] = []
        while heap and len(nodes) < count:
            score, node, i, k = heap[0]
            if (score, node) > bar:
                break
            nodes.append(node)
            if k + 1 == depth < most:  # the same nodes in the same order, with more tasks on each
                depth = min(4 * depth, most)
                ladders = self._ladders(ask, fitting[chosen], depth)
            ladder = ladders[i][1]
            if k + 1 < len(ladder):
                heapq.heapreplace(heap, (-ladder[k + 1], node, i, k + 1))
            elif len(ladder) == _DEPTH:
                break
            else:
                heapq.heappop(heap)
        return nodes

    def _ladders(self, ask: Ask, nodes: Indexes, depth: int) -> list[tuple[int, list[float]]]:
        """Return, for each node, the score of the first task that is placed there, of the second,
        and so on.
        """
        cluster = self._cluster
        eq_class = ask.eq_class
        room = cluster.future[nodes]
        if cluster.is_apart:
            room = np.minimum(room, cluster.idle[nodes])
        times = np.minimum(_how_often(room, eq_class), depth)
        starts = times.cumsum() - times
        step = np.arange(int(times.sum())) - starts.repeat(times)
        rows = Rows(cluster, nodes.repeat(times), eq_class, step)
        passes = np.ones(len(rows), dtype=np.bool_)
        for f in self._moving_filters(eq_class):
            passes &= f.passes(rows, ask)
        if cluster.is_apart:
            passes &= self._pass_beside_leaving(rows, ask)
        scores = self._scored(self.answers(ask), rows, ask)
        out = []
        good, listed = passes.tolist(), scores.tolist()
        all_pass = False not in good
        for node, start, count in zip(nodes.tolist(), starts.tolist(), times.tolist(), strict=True):
            end = start + count
            if not all_pass:
                end = next((at for at in range(start, end) if not good[at]), end)
            if end > start:
                out.append((node, listed[start:end]))
        return out

    def room_for(self, ask: Ask, mask: Flags, count: int) -> int:
        """Return how many of `count` tasks of the class have room on the nodes of the mask, now or
        after evictions have ended.

        Other waiting work may want the same room; it is not considered.
        """
        cluster = self._cluster
        found = self.answers(ask).open & mask
        if np.count_nonzero(found) >= count:
            return count
        room = cluster.future[found]
        return min(count, int(np.minimum(_how_often(room, ask.eq_class), count).sum()))

    # -- for evictions ------------------------------------------------------------------------

    def curable(self, ask: Ask, mask: Flags | None = None) -> Flags:
        """Return a mask of the nodes that the task could use after evictions: every filter either
        accepts the node, or could accept it after evictions. Callers must not write to the mask.
        """
        fixed, _, moving = self._incurable_of(ask)
        if mask is None and not moving:
            return fixed
        passes = fixed.copy() if mask is None else fixed & mask
        rows = Rows(self._cluster, np.arange(len(passes)))
        for f in moving:
            passes &= f.passes(rows, ask)
        return passes

    def _incurable_of(self, ask: Ask) -> tuple[Flags, Indexes, list[Filter]]:
        """Return three values about the filters whose answers evictions cannot change.

        Some of these filters have answers that never change: the first value is a mask of the nodes
        that pass them, and the second has the indexes of these nodes. The third value has the other
        filters, whose answers may change for other reasons than evictions.
        """
        filters, _, scope = self.rules()
        key = (ask.eq_class.index, self._scope_key(scope, ask.job, ask.task))
        known = self._incurable.get(key)
        if known is None:
            incurable = [f for f in filters if not f.curable]
            rows = Rows(self._cluster, np.arange(len(self._cluster.nodes)))
            fixed = np.ones(len(rows), dtype=np.bool_)
            for f in incurable:
                if f.changes(ask.eq_class) == NEVER:
                    fixed &= f.passes(rows, ask)
            moving = [f for f in incurable if f.changes(ask.eq_class) != NEVER]
            known = self._incurable[key] = (fixed, np.flatnonzero(fixed), moving)
        return known

    def passes_now(self, ask: Ask, node: int) -> bool:
        """Whether every filter lets the task onto the node in the node's current state. Room is not
        considered.
        """
        rows = Rows(self._cluster, np.array([node]))
        return all(bool(f.passes(rows, ask)[0]) for f in self.rules()[0])

    def fit_together(self, ask: Ask, nodes: Sequence[int]) -> bool:
        """Whether tasks of the asker's class fit into the idle room of these nodes, one on each of
        them, and every filter accepts them. A node may occur several times. Returns False if the
        answer depends on the order in which the tasks are placed.
        """
        if not self.can_unroll(ask.eq_class):
            return False
        cluster, eq_class = self._cluster, ask.eq_class
        seen: dict[int, int] = {}
        earlier = []
        for node in nodes:
            earlier.append(seen.get(node, 0))
            seen[node] = earlier[-1] + 1
        index, step = np.array(nodes), np.array(earlier)
        room = cluster.idle[index]
        if cluster.is_apart:
            room = np.minimum(room, cluster.future[index])
        if not bool((room >= (step + 1)[:, None] * eq_class.request)[:, eq_class.asked].all()):
            return False
        rows = Rows(cluster, index, eq_class, step)
        filters = self._moving_filters(eq_class)
        if cluster.is_apart and not self._pass_beside_leaving(rows, ask).all():
            return False
        return bool(self.static(ask)[index].all()) and all(
            f.passes(rows, ask).all() for f in filters
        )

    def _pass_beside_leaving(self, rows: Rows, ask: Ask) -> Flags:
        """Return a flag for each of these nodes: whether the filters let the task onto the node
        while leaving tasks are still there.
        """
        passes = np.ones(len(rows), dtype=np.bool_)
        for f in self._moving_filters(ask.eq_class):
            if f.passes_beside_leaving is not None:
                passes &= f.passes_beside_leaving(rows, ask)
        return passes

    def has_room_now(self, ask: Ask, node: int) -> bool:
        """Whether the task fits into the node's idle room, beside tasks that are leaving."""
        eq_class = ask.eq_class
        is_idle = (self._cluster.idle[node] >= eq_class.request)[eq_class.asked].all()
        return bool(is_idle) and bool(
            self._pass_beside_leaving(Rows(self._cluster, np.array([node])), ask).all()
        )

    def fits(self, t: int, node: int) -> bool:
        """Whether the task's request is within the node's future room."""
        cluster = self._cluster
        eq_class = cluster.eq_class[t]
        return bool((cluster.future[node] >= eq_class.request)[eq_class.asked].all())

    def ranked(self, ask: Ask, among: Flags | None = None) -> Iterator[int]:
        """Yield curable nodes by descending score, then by name. The nodes are sorted only if the
        caller needs a second node.

        `among` limits which nodes are yielded, but scores still compare all curable nodes.
        """
        _, nodes, moving = self._incurable_of(ask)
        mask = self.curable(ask)
        if moving:
            nodes = np.flatnonzero(mask)
        if len(nodes) == 0:
            return
        scores = self._scores(ask, nodes, mask)
        if among is not None:
            scores = np.where(among.take(nodes), scores, _OUT)
        first = int(np.argmax(scores))
        if scores[first] == _OUT:
            return
        yield int(nodes[first])
        for i in np.argsort(-scores, kind="stable"):
            if scores[i] == _OUT:
                return
            if i != first:
                yield int(nodes[i])

    def mask_of(self, nodes: Sequence[int] | None) -> Flags:
        """Return a mask of these nodes. None stands for all nodes."""
        n = len(self._cluster.nodes)
        if nodes is None:
            return np.ones(n, dtype=np.bool_)
        mask = np.zeros(n, dtype=np.bool_)
        mask[list(nodes)] = True
        return mask


def _narrowest(scopes: set[str]) -> str:
    """Return the scope of an answer that combines several answers with these scopes.

    Tasks of one class that do not differ in this scope get the same answer: with the scope "queue",
    for example, all tasks of one queue. `Filter` describes the scopes.
    """
    if {"queue", "kind"} <= scopes:
        return "task" if "task" in scopes else "job"
    return next((s for s in ("task", "job", "kind", "queue") if s in scopes), "")


def _holds(room: Counts, index: Indexes, eq_class: EquivalenceClass) -> Flags:
    """Return which of these nodes have enough room for one task of the class. `room`: the amounts
    that count as free on each node.
    """
    first, *others = eq_class.asked
    request = eq_class.request
    out: Flags = room[:, first].take(index) >= request[first]
    for r in others:
        out &= room[:, r].take(index) >= request[r]
    return out


def _how_often(room: Counts, eq_class: EquivalenceClass) -> Counts:
    """Return how many tasks of the class fit into each row of `room`, which has a row for each node
    and a column for each resource.
    """
    out: Counts = (room[:, eq_class.asked] // eq_class.request[eq_class.asked]).min(axis=1)
    return out


def _top(heads: Vector, count: int) -> tuple[Indexes, int]:
    """Return the indexes of the `count` highest values; among equals, lower indexes come first.
    Also return the index of the next highest value; -1 if there is none.
    """
    if len(heads) <= count:
        return np.arange(len(heads)), -1
    left = heads.copy()
    if count <= _FEW:  # a few searches for the highest score cost less than a partition
        chosen = np.empty(count, dtype=np.intp)
        for i in range(count):
            chosen[i] = top = left.argmax()
            left[top] = _OUT
        chosen.sort()
    else:
        cut = np.partition(heads, len(heads) - count)[len(heads) - count]
        above = np.flatnonzero(heads > cut)
        level = np.flatnonzero(heads == cut)[: count - len(above)]
        chosen = np.sort(np.concatenate((above, level)))
        left[chosen] = _OUT
    return chosen, int(left.argmax())
