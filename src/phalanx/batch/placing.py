"""Finding nodes: masks and scores per class, kept, and redone only where something changed.

Equal tasks are placed in one go. Taken one by one, each would go to the best node and only that
node's answers would change; so the best few nodes are unrolled (what would the second, third …
task see there?), and the unrolled answers merged in order. The outcome is the same.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from phalanx.batch.amounts import Counts, Flags, Vector
from phalanx.batch.klass import Klass
from phalanx.batch.rows import ALWAYS, BY_ONE, NEVER, TOUCHED, Ask, Filter, Indexes, Rows, Scorer

if TYPE_CHECKING:
    from phalanx.batch.session import Session

_WIDTH, _DEPTH = 96, 48
"""Nodes, and tasks on each, that are unrolled at once."""
_FEW = 16
"""So many nodes, or fewer, are looked for one by one."""
_OUT = -np.inf


class Answers:
    """One class's masks over all nodes, true at version `mark` of the cluster, and its scores.

    Most classes that wait find no node open, so a node is scored only once it is to be ranked.
    """

    __slots__ = ("fixed", "mark", "open", "room", "scored_at", "scores", "static", "steady")

    def __init__(self, n: int) -> None:
        self.static: Flags = np.ones(n, dtype=np.bool_)
        """Filters that never change."""
        self.fixed: Vector = np.zeros(n)
        """Scores that never change."""
        self.open: Flags = np.zeros(n, dtype=np.bool_)
        """Passes every filter, and fits the room that is or will be idle."""
        self.room: Flags = np.zeros(n, dtype=np.bool_)
        """Open, and fits the room that is idle now."""
        self.scores: Vector = np.zeros(n)
        """Of each node as it was at version `scored_at`; only where `steady`."""
        self.scored_at: Counts = np.full(n, -1, dtype=np.int64)
        self.mark = -1
        self.steady = True


class Placer:
    """Answers "which nodes, and which is best" for a session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: dict[tuple[int, int], Answers] = {}
        self._rules: tuple[list[Filter], list[Scorer], str] | None = None
        self._unrollable: dict[int, bool] = {}
        self._incurable: dict[tuple[int, int], Flags] = {}

    def ask(self, t: int, domain: str = "") -> Ask:
        cluster = self._session.cluster
        job = self._session.job(t)
        return Ask(task=t, klass=cluster.klass[t], job=job, sub=cluster.sub_of(t), domain=domain)

    # -- rules --------------------------------------------------------------------------------

    def rules(self) -> tuple[list[Filter], list[Scorer], str]:
        """Filters, scorers, and the narrowest scope among them."""
        if self._rules is None:
            voices = self._session.voices
            filters: list[Filter] = voices.all("filter")  # type: ignore[assignment]
            scorers: list[Scorer] = voices.all("scorer")  # type: ignore[assignment]
            scopes = {x.scope for x in filters} | {x.scope for x in scorers}
            scope = next((s for s in ("task", "job", "queue") if s in scopes), "")
            self._rules = (filters, scorers, scope)
            if not scope and all(f.lasting for f in filters) and all(s.lasting for s in scorers):
                self._known = self._session.cluster.answers
        return self._rules

    def can_unroll(self, klass: Klass) -> bool:
        """Whether the answers about a node with ever more tasks of the class on it are known."""
        known = self._unrollable.get(klass.index)
        if known is None:
            known = self._unrollable[klass.index] = self._changes_below(BY_ONE, klass)
        return known

    def _changes_below(self, level: int, klass: Klass) -> bool:
        filters, scorers, scope = self.rules()
        return (
            scope != "task"
            and not self._session.voices.all("best_node")
            and all(x.changes(klass) < level for x in filters)
            and all(x.changes(klass) < level for x in scorers)
        )

    def answers(self, ask: Ask) -> Answers:
        """What is known of the asker's class, its masks brought up to date."""
        filters, scorers, scope = self.rules()
        cluster = self._session.cluster
        key = (ask.klass.index, self._scope_key(scope, ask))
        n = len(cluster.nodes)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = Answers(n)
            rows = Rows(cluster, np.arange(n))
            for f in filters:
                if f.changes(ask.klass) == NEVER:
                    known.static &= f.passes(rows, ask)
            for s in scorers:
                if s.changes(ask.klass) == NEVER:
                    known.fixed += s.score(rows, ask)
            known.steady = self._changes_below(ALWAYS, ask.klass)
        if known.mark < 0 or not known.steady:
            index = np.arange(n)
        elif known.mark == cluster.version:
            return known
        else:
            index = np.flatnonzero(cluster.changed_at > known.mark)
        known.mark = cluster.version
        self._refresh(known, index, ask, filters)
        return known

    def _scope_key(self, scope: str, ask: Ask) -> int:
        return {"": -1, "queue": ask.job.queue, "job": ask.job.index, "task": ask.task}[scope]

    def _refresh(self, known: Answers, index: Indexes, ask: Ask, filters: list[Filter]) -> None:
        cluster = self._session.cluster
        rows = Rows(cluster, index)
        passes = known.static[index]
        fits = np.ones(len(index), dtype=np.bool_)
        for r in ask.klass.asked:
            passes &= cluster.future[index, r] >= ask.klass.request[r]
            fits &= cluster.idle[index, r] >= ask.klass.request[r]
        for f in filters:
            if f.changes(ask.klass) != NEVER:
                passes &= f.passes(rows, ask)
        known.open[index] = passes
        known.room[index] = passes & fits

    def _rescore(self, known: Answers, nodes: Indexes, ask: Ask) -> None:
        """Score those of the nodes again that changed since they were last scored."""
        cluster = self._session.cluster
        stale = nodes[cluster.changed_at[nodes] > known.scored_at[nodes]]
        if len(stale):
            moving = self._moving(Rows(cluster, stale), ask, self.rules()[1])
            known.scores[stale] = known.fixed[stale] + moving
            known.scored_at[stale] = cluster.version

    def _moving(self, rows: Rows, ask: Ask, scorers: list[Scorer]) -> Vector:
        scores = np.zeros(len(rows))
        for s in scorers:
            if s.changes(ask.klass) != NEVER:
                scores += s.score(rows, ask)
        return scores

    # -- choosing -----------------------------------------------------------------------------

    def best(self, ask: Ask, mask: Flags) -> int:
        """The node of the mask with the highest score, the first by name; -1 if none."""
        nodes = np.flatnonzero(mask)
        if len(nodes) == 0:
            return -1
        if len(nodes) == 1:
            return int(nodes[0])
        scores = self.scores(ask, nodes)
        chosen = self._session.voices.first("best_node", ask.task, nodes, scores)
        if chosen is not None and chosen >= 0:
            return int(chosen)
        return int(nodes[int(np.argmax(scores))])

    def scores(self, ask: Ask, nodes: Indexes) -> Vector:
        """Scores of these nodes; where scores are relative, relative to these nodes alone."""
        known = self.answers(ask)
        if known.steady:
            self._rescore(known, nodes, ask)
            return known.scores[nodes]
        rows = Rows(self._session.cluster, nodes)
        return known.fixed[nodes] + self._moving(rows, ask, self.rules()[1])

    def unroll(self, ask: Ask, count: int, mask: Flags) -> list[int]:
        """Nodes for up to `count` tasks of the asker's class, one after the other, in idle room.

        Stops early when what was unrolled no longer decides; call again after placing those.
        """
        known = self.answers(ask)
        fitting = np.flatnonzero(known.room & mask)
        self._rescore(known, fitting, ask)
        heads = np.full(len(mask), _OUT)
        heads[fitting] = known.scores[fitting]
        if count == 1:
            top = int(np.argmax(heads))
            return [top] if heads[top] > _OUT else []
        chosen = _top(heads, min(_WIDTH, count))
        if len(chosen) == 0:
            return []
        rest = heads.copy()
        rest[chosen] = _OUT
        other = int(np.argmax(rest))
        bar = (-float(rest[other]), other)
        ladders = self._ladders(ask, chosen, min(_DEPTH, count))
        heap = [(-ladder[0], int(node), i, 0) for i, (node, ladder) in enumerate(ladders)]
        heapq.heapify(heap)
        nodes: list[int] = []
        while heap and len(nodes) < count:
            score, node, i, k = heap[0]
            if (score, node) > bar:
                break
            nodes.append(node)
            ladder = ladders[i][1]
            if k + 1 < len(ladder):
                heapq.heapreplace(heap, (-ladder[k + 1], node, i, k + 1))
            elif len(ladder) == _DEPTH:
                break
            else:
                heapq.heappop(heap)
        return nodes

    def _ladders(self, ask: Ask, nodes: Indexes, depth: int) -> list[tuple[int, list[float]]]:
        """For each node the score that the first, second … task of the class would see there."""
        cluster = self._session.cluster
        klass = ask.klass
        times = np.full(len(nodes), depth, dtype=np.int64)
        for r in klass.asked:
            room = np.minimum(cluster.idle[nodes, r], cluster.future[nodes, r])
            times = np.minimum(times, room // klass.request[r])
        owner = np.repeat(np.arange(len(nodes)), times)
        starts = np.concatenate(([0], np.cumsum(times)[:-1]))
        step = np.arange(len(owner)) - starts[owner]
        rows = Rows(cluster, nodes[owner], klass, step.astype(np.int64))
        filters, scorers, _ = self.rules()
        passes = np.ones(len(rows), dtype=np.bool_)
        for f in filters:
            if f.changes(klass) == TOUCHED:
                passes &= f.passes(rows, ask)
        known = self.answers(ask)
        scores = known.fixed[rows.index] + self._moving(rows, ask, scorers)
        out = []
        good, listed = passes.tolist(), scores.tolist()
        for i, node in enumerate(nodes.tolist()):
            start, stop = int(starts[i]), int(starts[i] + times[i])
            end = start
            while end < stop and good[end]:
                end += 1
            if end > start:
                out.append((node, listed[start:end]))
        return out

    def room_for(self, ask: Ask, mask: Flags, count: int) -> int:
        """How many of `count` tasks of the class the room that is or will be idle could hold, if
        nobody else took of it."""
        cluster = self._session.cluster
        nodes = np.flatnonzero(self.answers(ask).open & mask)
        if len(nodes) >= count:
            return count
        times = np.full(len(nodes), count, dtype=np.int64)
        for r in ask.klass.asked:
            times = np.minimum(times, cluster.future[nodes, r] // ask.klass.request[r])
        return min(count, int(times.sum()))

    # -- for evictions ------------------------------------------------------------------------

    def curable(self, ask: Ask, mask: Flags | None = None) -> Flags:
        """Nodes that no filter rules out for good: evictions might make them fit."""
        cluster = self._session.cluster
        filters, _, scope = self.rules()
        incurable = [f for f in filters if not f.curable]
        rows = Rows(cluster, np.arange(len(cluster.nodes)))
        key = (ask.klass.index, self._scope_key(scope, ask))
        fixed = self._incurable.get(key)
        if fixed is None:
            fixed = np.ones(len(rows), dtype=np.bool_)
            for f in incurable:
                if f.changes(ask.klass) == NEVER:
                    fixed &= f.passes(rows, ask)
            self._incurable[key] = fixed
        passes = fixed.copy() if mask is None else fixed & mask
        for f in incurable:
            if f.changes(ask.klass) != NEVER:
                passes &= f.passes(rows, ask)
        return passes

    def passes_now(self, ask: Ask, node: int) -> bool:
        """Whether every filter lets the task onto the node as it stands, room aside."""
        rows = Rows(self._session.cluster, np.array([node]))
        return all(bool(f.passes(rows, ask)[0]) for f in self.rules()[0])

    def fits(self, t: int, node: int) -> bool:
        """Whether the task's request is within what is or will be idle on the node."""
        cluster = self._session.cluster
        klass = cluster.klass[t]
        return bool((cluster.future[node] >= klass.request)[klass.asked].all())

    def ranked(self, ask: Ask, nodes: Indexes, among: Flags | None = None) -> Iterator[int]:
        """Nodes by falling score, then name; sorted only when the first is not enough. `among`
        says which of them to give, but scores stay relative to them all."""
        if len(nodes) == 0:
            return
        scores = self.scores(ask, nodes)
        if among is not None:
            nodes, scores = nodes[among], scores[among]
            if len(nodes) == 0:
                return
        first = int(np.argmax(scores))
        yield int(nodes[first])
        for i in np.argsort(-scores, kind="stable"):
            if i != first:
                yield int(nodes[i])

    def mask_of(self, nodes: Sequence[int] | None) -> Flags:
        """A mask of these nodes; None stands for all."""
        n = len(self._session.cluster.nodes)
        if nodes is None:
            return np.ones(n, dtype=np.bool_)
        mask = np.zeros(n, dtype=np.bool_)
        mask[list(nodes)] = True
        return mask


def _top(heads: Vector, count: int) -> Indexes:
    """Indexes of the `count` highest, lower index first among equals; fewer if the rest is out."""
    if count <= _FEW:
        return _few_top(heads, count)
    live = np.flatnonzero(heads > _OUT)
    if len(live) <= count:
        return live
    values = heads[live]
    cut = np.partition(values, len(values) - count)[len(values) - count]
    above = live[values > cut]
    level = live[values == cut][: count - len(above)]
    return np.sort(np.concatenate((above, level)))


def _few_top(heads: Vector, count: int) -> Indexes:
    """As `_top`: looking a few times for the highest is less work than parting all of them."""
    left = heads.copy()
    chosen = []
    for _ in range(count):
        top = int(np.argmax(left))
        if left[top] == _OUT:
            break
        chosen.append(top)
        left[top] = _OUT
    return np.array(sorted(chosen), dtype=np.intp)
