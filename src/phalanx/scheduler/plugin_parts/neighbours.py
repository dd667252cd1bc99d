"""Rules by which tasks that run on a node, or in its domain, allow or prevent other tasks there:
affinity, spread and ports.

Source: kube-scheduler's interpodaffinity, podtopologyspread and nodeports.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from phalanx.scheduler.cycle import jobs as j
from phalanx.scheduler.cycle.amounts import Flags, Vector
from phalanx.scheduler.cycle.equivalence_class import EquivalenceClass
from phalanx.scheduler.cycle.matching import meets
from phalanx.scheduler.cycle.rows import ALWAYS, NEVER, Ask, Rows
from phalanx.scheduler.cycle.session import Session
from phalanx.scheduler.cycle.specs import PodTerm, Spread


class Neighbours:
    """Answers questions about the tasks on nodes. An answer is computed only when it is needed, so
    that only classes with rules about other tasks cost time.
    """

    def __init__(self, session: Session) -> None:
        self._cluster = session.cluster
        shapes = [k.shape for k in session.cluster.eq_classes]
        found = [x.affinity for x in shapes if x.affinity is not None]
        self.any_required = any(a.pod_required or a.pod_anti_required for a in found)
        self._any_preferred = any(a.pod_preferred or a.pod_anti_preferred for a in found)
        self.absent = not any(a.between_tasks for a in found) and not any(x.spread for x in shapes)
        """Whether no task has rules about other tasks. Then nothing here can change an answer."""
        self._domains: dict[str, list[str | None]] = {}

    def _domain(self, key: str) -> list[str | None]:
        """Return the value of a label on each node; None for a node without the label."""
        known = self._domains.get(key)
        if known is None:
            known = self._domains[key] = [labels.get(key) for labels in self._cluster.labels]
        return known

    def _present(self) -> Iterator[tuple[int, EquivalenceClass]]:
        """Yield (node, class) for every task that is on a node and is not being evicted."""
        cluster = self._cluster
        for node, tasks in enumerate(cluster.on_node):
            for t in tasks:
                if cluster.status[t] != j.RELEASING:
                    yield node, cluster.eq_class[t]

    def _matched(self, term: PodTerm, owner: EquivalenceClass, other: EquivalenceClass) -> bool:
        spaces = term.namespaces or (owner.shape.namespace,)
        return other.shape.namespace in spaces and meets(other.labels, term.matches)

    # -- filters --------------------------------------------------------------------------------

    def required_changes(self, _: EquivalenceClass) -> int:
        """Return which changes can change the answer of `near` or `apart`, as NEVER to ALWAYS of
        `rows`.
        """
        return ALWAYS

    def near(self, rows: Rows, ask: Ask) -> Flags:
        """Return a mask of the nodes whose domain has, for each required affinity term, a matching
        task. If tasks require each other, the first of them may go to any node with the label.
        """
        affinity = ask.eq_class.shape.affinity
        good = np.ones(len(rows), dtype=np.bool_)
        if affinity is None or not affinity.pod_required:
            return good
        found: list[set[str]] = [set() for _ in affinity.pod_required]
        for node, eq_class in self._present():
            if not all(self._matched(t, ask.eq_class, eq_class) for t in affinity.pod_required):
                continue
            for i, term in enumerate(affinity.pod_required):
                value = self._domain(term.topology_key)[node]
                if value is not None:
                    found[i].add(value)
        alone = not any(found) and all(
            self._matched(t, ask.eq_class, ask.eq_class) for t in affinity.pod_required
        )
        for i, term in enumerate(affinity.pod_required):
            domain = self._domain(term.topology_key)
            good &= np.array(
                [domain[n] is not None and (alone or domain[n] in found[i]) for n in rows.index],
                dtype=np.bool_,
            )
        return good

    def apart(self, rows: Rows, ask: Ask) -> Flags:
        """Return a mask of the nodes where neither the asker's anti-affinity nor that of a placed
        task is violated.
        """
        affinity = ask.eq_class.shape.affinity
        mine = affinity.pod_anti_required if affinity else ()
        taken: dict[str, set[str]] = {}
        for node, eq_class in self._present():
            theirs = eq_class.shape.affinity.pod_anti_required if eq_class.shape.affinity else ()
            terms = [t for t in mine if self._matched(t, ask.eq_class, eq_class)]
            terms += [t for t in theirs if self._matched(t, eq_class, ask.eq_class)]
            for term in terms:
                value = self._domain(term.topology_key)[node]
                if value is not None:
                    taken.setdefault(term.topology_key, set()).add(value)
        good = np.ones(len(rows), dtype=np.bool_)
        for key, values in taken.items():
            domain = self._domain(key)
            good &= np.array([domain[n] not in values for n in rows.index], dtype=np.bool_)
        return good

    def ports_free(self, rows: Rows, ask: Ask) -> Flags:
        wanted = set(ask.eq_class.shape.ports)
        if not wanted:
            return np.ones(len(rows), dtype=np.bool_)
        cluster = self._cluster
        good = []
        for n in rows.index:
            used = {
                p
                for t in cluster.on_node[n]
                if cluster.status[t] != j.RELEASING
                for p in cluster.eq_class[t].shape.ports
            }
            good.append(not used & wanted)
        return np.array(good, dtype=np.bool_)

    # -- spread -----------------------------------------------------------------------------------

    def spread_changes(self, eq_class: EquivalenceClass) -> int:
        """Return which changes can change the answers about spreading for the class, as NEVER to
        ALWAYS of `rows`.
        """
        return ALWAYS if eq_class.shape.spread else NEVER

    def spread_labelled(self, rows: Rows, ask: Ask) -> Flags:
        keys = [x.topology_key for x in ask.eq_class.shape.spread if x.hard]
        good = [all(self._domain(k)[n] is not None for k in keys) for n in rows.index]
        return np.array(good, dtype=np.bool_)

    def spread_within(self, rows: Rows, ask: Ask) -> Flags:
        good = np.ones(len(rows), dtype=np.bool_)
        for rule in ask.eq_class.shape.spread:
            if not rule.hard:
                continue
            counts = self._spread_counts(rule, ask)
            least = min(counts.values(), default=0)
            own = meets(ask.eq_class.labels, rule.matches)
            domain = self._domain(rule.topology_key)
            skew = [counts.get(domain[n] or "", 0) + own - least for n in rows.index]
            good &= np.array(skew, dtype=np.int64) <= rule.max_skew
        return good

    def _spread_counts(self, rule: Spread, ask: Ask) -> dict[str, int]:
        """Return, for each domain with nodes that the asker's own selector allows, the number of
        matching tasks in it.
        """
        cluster = self._cluster
        domain = self._domain(rule.topology_key)
        selector = ask.eq_class.shape.selector
        counts: dict[str, int] = {}
        for n, value in enumerate(domain):
            if value is not None and all(cluster.labels[n].get(k) == v for k, v in selector):
                counts.setdefault(value, 0)
        for node, eq_class in self._present():
            value = domain[node]
            if (
                value in counts
                and eq_class.shape.namespace == ask.eq_class.shape.namespace
                and meets(eq_class.labels, rule.matches)
            ):
                counts[value] += 1
        return counts

    def spread(self, rows: Rows, ask: Ask) -> Vector:
        """Return scores from 0 to 100: the fewer matching tasks the node's domain has, the higher
        the score.
        """
        soft = [x for x in ask.eq_class.shape.spread if not x.hard]
        if not soft:
            return np.zeros(len(rows))
        raw = np.zeros(len(rows))
        for rule in soft:
            counts = self._spread_counts(rule, ask)
            domain = self._domain(rule.topology_key)
            weight = np.log(len(counts) + 2)
            raw += np.array([counts.get(domain[n] or "", 0) * weight for n in rows.index])
        high, low = raw.max(initial=0.0), raw.min(initial=np.inf)
        if high == 0:
            return np.full(len(rows), 100.0)
        out: Vector = np.floor(100.0 * (high + low - raw) / high)
        return out

    # -- wishes ---------------------------------------------------------------------------------

    def affinity_changes(self, _: EquivalenceClass) -> int:
        """Return which changes can change the score of `affinity`, as NEVER to ALWAYS of `rows`."""
        return ALWAYS if self._any_preferred else NEVER

    def affinity(self, rows: Rows, ask: Ask) -> Vector:
        """Return scores from 0 to 100, by the weights of preferred terms: those of the asker, and
        those of tasks on nodes.
        """
        if not self._any_preferred:
            return np.zeros(len(rows))
        sums: dict[tuple[str, str], int] = {}

        def count(term: PodTerm, node: int, sign: int) -> None:
            value = self._domain(term.topology_key)[node]
            if value is not None:
                at = (term.topology_key, value)
                sums[at] = sums.get(at, 0) + sign * term.weight

        mine = ask.eq_class.shape.affinity
        for node, eq_class in self._present():
            theirs = eq_class.shape.affinity
            for affinity, owner, other in (
                (mine, ask.eq_class, eq_class),
                (theirs, eq_class, ask.eq_class),
            ):
                if affinity is None:
                    continue
                for term in affinity.pod_preferred:
                    if self._matched(term, owner, other):
                        count(term, node, 1)
                for term in affinity.pod_anti_preferred:
                    if self._matched(term, owner, other):
                        count(term, node, -1)
        raw = np.zeros(len(rows))
        for (key, value), weight in sums.items():
            domain = self._domain(key)
            raw += np.array([weight * (domain[n] == value) for n in rows.index])
        if not sums or not len(raw):
            return raw
        low, high = raw.min(), raw.max()
        if high == low:
            return np.zeros(len(rows))
        out: Vector = np.floor(100.0 * (raw - low) / (high - low))
        return out
