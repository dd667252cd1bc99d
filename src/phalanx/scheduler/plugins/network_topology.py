"""The plugin network-topology-aware: keeps gangs in small domains and near their own tasks.

Source: Volcano's network-topology-aware plugin. The plugin defines:
- levels: the domains up to the allowed tier, tier by tier. If the job already has places, these are
  the domains inside the widest allowed domain around the places. Otherwise, domains that could not
  hold the minimum are left out.
- the score of a domain: 100 * weight * fullness. The fullness is (used + request) / capacity,
  averaged over the weighted resources. If several domains are the fullest, the fraction of the
  subjob's tasks that are in the domain is added to its fullness.
- the score of a node for a subjob with a topology: 100 * weight * closeness. The closeness is 1 if
  the node's lowest domain is the domain in which the subjob is placed. Otherwise it is
  (maxTier - tier of the lowest domain that contains both) / (maxTier - minTier). If several nodes
  are the closest, the fraction of the subjob's tasks in the node's lowest domain is added.
- the score of a node for all other tasks: 100 * weight * the mean fullness of the node's domains.
  In this mean, a tier has the weight fading^(tier - minTier). A tier in which the node has no
  domain counts as full.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from phalanx.scheduler.cycle import jobs as j
from phalanx.scheduler.cycle.accepted import FLAG, NUMBER, TEXT, WHOLE, Accepted
from phalanx.scheduler.cycle.amounts import PODS, Counts, Vector
from phalanx.scheduler.cycle.arguments import Arguments, flag, text, whole, within
from phalanx.scheduler.cycle.jobs import Job, SubJob, is_bound
from phalanx.scheduler.cycle.rows import Ask, Change, Rows, Scorer, always, never
from phalanx.scheduler.cycle.session import Session
from phalanx.scheduler.cycle.specs import NetworkTopology

_EVICT = "evict"
_MAX_TIERS = 100
"""The number of tiers, from the lowest one up, that count in a faded score."""
_MAX_FADING = 100.0
"""The largest allowed fading. With a larger one, the power for the highest counted tier could
overflow.
"""


class NetworkTopologyAware:
    """The plugin network-topology-aware. Arguments: `weight` (1), `hypernode.binpack.cpu` (1),
    `hypernode.binpack.memory` (1), `hypernode.binpack.resources` (names separated by commas) with
    `hypernode.binpack.resources.<name>` (1), `hypernode.binpack.normal-pod.enable` (true),
    `hypernode.binpack.normal-pod.fading` (0.8), `hypernode.gradient.evict.max-hypernodes` (8).
    """

    name = "network-topology-aware"
    accepts: ClassVar[Accepted] = {
        "weight": WHOLE,
        "hypernode.binpack.cpu": WHOLE,
        "hypernode.binpack.memory": WHOLE,
        "hypernode.binpack.resources": TEXT,
        "hypernode.binpack.resources.*": WHOLE,
        "hypernode.binpack.normal-pod.enable": FLAG,
        "hypernode.binpack.normal-pod.fading": NUMBER,
        "hypernode.gradient.evict.max-hypernodes": WHOLE,
    }

    def __init__(self, arguments: Arguments) -> None:
        def weight(key: str) -> int:
            n = whole(arguments, key, 1)
            return n if n >= 0 else 1

        base = "hypernode.binpack"
        self._weight = weight("weight")
        self._weights = {"cpu": weight(f"{base}.cpu"), "memory": weight(f"{base}.memory")}
        for name in text(arguments, f"{base}.resources").split(","):
            if name.strip():
                self._weights[name.strip()] = weight(f"{base}.resources.{name.strip()}")
        self._plain = flag(arguments, f"{base}.normal-pod.enable", True)
        self._fading = within(arguments, f"{base}.normal-pod.fading", 0.8, 0, _MAX_FADING)
        self._most = whole(arguments, "hypernode.gradient.evict.max-hypernodes", 8)

    def open(self, session: Session) -> None:
        self._session = session
        cluster = session.cluster
        self._tree = cluster.hypernodes
        index = cluster.dims.index
        self._of = {index[n]: w for n, w in self._weights.items() if n in index}
        self._capacity: dict[str, Counts] = {}
        self._used: dict[str, Counts] = {}
        self._domains_of: dict[int, list[str]] = {}
        is_asked = any(job.has_topology() for job in cluster.jobs)
        if self._tree.given or is_asked or any(job.has_subgroups for job in cluster.jobs):
            self._read_domains()
        tiers = [t for n, t in self._tree.tier.items()]
        self._low, self._high = min(tiers), max(tiers)
        session.add("changed", self.name, self._changed)
        session.add("hypernode_order", self.name, self._order)
        session.add("job_gradient", self.name, self._job_levels)
        session.add("subjob_gradient", self.name, self._subjob_levels)
        scorer = Scorer(name=self.name, score=self._score, changes=always, scope="job")
        if not is_asked and not (self._plain and self._tree.given):
            # Then all scores are 0, so the combined scores may be used in later cycles, too.
            scorer = Scorer(name=self.name, score=self._score, changes=never, lasting=True)
        session.add("scorer", self.name, scorer)

    def _read_domains(self) -> None:
        cluster = self._session.cluster
        for name, members in self._tree.members.items():
            self._capacity[name] = cluster.capacity[members].sum(axis=0)
            self._used[name] = cluster.used[members].sum(axis=0)
            for node in members:
                self._domains_of.setdefault(node, []).append(name)

    def _changed(self, change: Change) -> None:
        if self._tree.given:
            for node in change.nodes:
                for name in self._domains_of.get(node, ()):
                    self._used[name] = self._used[name] + change.eq_class.request * change.sign

    # -- levels ---------------------------------------------------------------------------------

    def _job_levels(self, job: Job, within: str, purpose: str) -> list[list[str]]:
        least = None if job.min_resources is None else job.min_resources.v
        return self._levels(job.topology, job.allocated_hypernode, least, within, purpose)

    def _subjob_levels(self, sub: SubJob, within: str, purpose: str) -> list[list[str]]:
        cluster = self._session.cluster
        least = np.zeros(len(cluster.dims))
        for t in sub.tasks:
            if cluster.status[t] == j.PENDING:
                least += cluster.eq_class[t].vector
        return self._levels(sub.topology, sub.allocated_hypernode, least, within, purpose)

    def _levels(
        self,
        topology: NetworkTopology | None,
        allocated: str,
        least: Vector | None,
        within: str,
        purpose: str,
    ) -> list[list[str]]:
        if not is_bound(topology):
            return [[within]]
        assert topology is not None
        bound = self._tree.bound(topology)
        if bound is None:
            return []
        root = self._search_root(bound, allocated, within)
        if root is None:
            return []
        by_tier: dict[int, list[str]] = {}
        queue = [root]
        while queue:
            name = queue.pop(0)
            queue += self._tree.children[name]
            tier = self._tree.tier[name]
            if tier <= bound and (allocated or self._could_hold(name, least, purpose)):
                by_tier.setdefault(tier, []).append(name)
        levels = [sorted(by_tier[t]) for t in sorted(by_tier)]
        return self._widest_first(levels) if purpose == _EVICT else levels

    def _search_root(self, bound: int, allocated: str, within: str) -> str | None:
        """Return the widest domain that contains all allocated tasks, that has at most the tier
        `bound`, and that is not wider than `within`; None if there is none.
        """
        if not allocated:
            return within
        highest = ""
        for name in self._tree.ancestors(allocated):
            if self._tree.tier[name] > bound:
                break
            highest = name
        if not highest:
            return None
        common = self._tree.common(within, highest)
        if common == highest:
            return within
        return highest if common == within else None

    def _could_hold(self, name: str, least: Vector | None, purpose: str) -> bool:
        if least is None:
            return True
        cluster = self._session.cluster
        members = self._tree.members[name]
        of = least > 0
        if purpose == _EVICT:
            return bool((least <= cluster.capacity[members].sum(axis=0))[of].all())
        room = np.maximum(cluster.idle[members].sum(axis=0), cluster.future[members].sum(axis=0))
        return bool((least <= room)[of].all())

    def _widest_first(self, levels: list[list[str]]) -> list[list[str]]:
        left = self._most
        if left <= 0:
            return levels
        out = []
        for level in reversed(levels):
            if left == 0:
                break
            kept = level[-left:] if len(level) > left else level
            out.append(kept)
            left -= len(kept)
        return out

    # -- scores ---------------------------------------------------------------------------------

    def _ratio(self, name: str, request: Vector) -> float:
        """Return how full a domain would be with the request in it; 0 if the request would not
        fit.
        """
        total, weights = 0.0, 0
        for r, weight in self._of.items():
            if request[r] <= 0 or r == PODS:
                continue
            capacity, used = float(self._capacity[name][r]), float(self._used[name][r])
            if used + request[r] > capacity:
                return 0.0
            total += weight * (used + request[r]) / capacity
            weights += weight
        return total / weights if weights else 0.0

    def _task_part(self, name: str, sub: SubJob) -> float:
        """Return which fraction of a subjob's tasks is in a domain."""
        if not name or not sub.tasks:
            return 0.0
        members = set(self._tree.members[name])
        there = sum(self._session.cluster.node_of[t] in members for t in sub.tasks)
        return there / len(sub.tasks)

    def _order(self, sub: SubJob, names: Sequence[str]) -> dict[str, float]:
        cluster = self._session.cluster
        request = np.zeros(len(cluster.dims))
        for t in sub.tasks:
            request += cluster.eq_class[t].vector
        scores = {name: self._ratio(name, request) for name in names}
        best = max(scores.values())
        level = [name for name in names if scores[name] == best]
        if len(level) > 1:
            for name in level:
                scores[name] += self._task_part(name, sub)
        return {name: 100.0 * self._weight * s for name, s in scores.items()}

    def _score(self, rows: Rows, ask: Ask) -> Vector:
        sub = ask.sub
        if sub is not None and sub.topology is not None:
            return self._near(rows, ask, sub) * (100.0 * self._weight)
        if not self._plain or not self._tree.given:
            return np.zeros(len(rows))
        return self._faded(rows, ask) * (100.0 * self._weight)

    def _near(self, rows: Rows, ask: Ask, sub: SubJob) -> Vector:
        if not ask.domain:
            return np.zeros(len(rows))
        worth: dict[str, float] = {}
        homes = [self._tree.lowest_of(int(n)) for n in rows.index]
        for home in homes:
            if home not in worth:
                worth[home] = self._closeness(home, ask.domain)
        scores = np.array([worth[home] for home in homes])
        level = np.flatnonzero(scores == scores.max())
        if len(level) > 1:
            for i in level:
                scores[i] += self._task_part(homes[i], sub)
        return scores

    def _closeness(self, home: str, domain: str) -> float:
        if not home:
            return 0.0
        if home == domain:
            return 1.0
        common = self._tree.common(home, domain)
        if not common or self._high == self._low:
            return 0.0
        return (self._high - self._tree.tier[common]) / (self._high - self._low)

    def _faded(self, rows: Rows, ask: Ask) -> Vector:
        last = min(self._high, self._low + _MAX_TIERS - 1)
        weights = {t: self._fading ** (t - self._low) for t in range(self._low, last + 1)}
        total = sum(weights.values())
        if total <= 0:
            return np.zeros(len(rows))
        worth: dict[str, float] = {}
        out = np.zeros(len(rows))
        for i, node in enumerate(rows.index):
            of_tier = {self._tree.tier[n]: n for n in self._domains_of.get(int(node), ())}
            score = 0.0
            for tier, weight in weights.items():
                name = of_tier.get(tier)
                if name is not None and name not in worth:
                    worth[name] = self._ratio(name, ask.eq_class.vector)
                score += weight * (worth[name] if name is not None else 1.0)
            out[i] = score / total
        return out
