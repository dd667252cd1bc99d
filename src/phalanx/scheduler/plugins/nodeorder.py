"""The plugin nodeorder: kube-scheduler's preferences, each with a score from 0 to 100 times its
weight.

Source: Volcano's nodeorder plugin, which uses kube-scheduler's scorers:
- least: the mean over cpu and memory of (capacity - asked) * 100 / capacity.
- most: the same with asked in place of (capacity - asked).
- balanced: (1 - spread of the used fractions) * 100. The spread is half the distance for two
  resources, and otherwise the standard deviation.
- node affinity: the sum of the weights of the preferences that the node meets.
- taint toleration: 100 minus the percentage of PreferNoSchedule taints that the task does not
  tolerate.
- image locality: (s - 23 MiB) * 100 / (n * 1000 MiB - 23 MiB), limited to 0..100. Here n is the
  number of the task's images. s is a sum over the images that the node already has: the size of
  the image times the fraction of nodes that have the image.
- pod affinity and topology spread: scaled to 0..100 over the candidates.

In least and most, a task that requests no cpu or no memory counts as 100 milli-cores or 200 MiB.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple

import numpy as np

from phalanx.scheduler.cycle.accepted import WHOLE, Accepted
from phalanx.scheduler.cycle.amounts import CPU, MEMORY, Counts, Flags, Vector
from phalanx.scheduler.cycle.arguments import Arguments, whole
from phalanx.scheduler.cycle.cluster import Cluster
from phalanx.scheduler.cycle.equivalence_class import EquivalenceClass
from phalanx.scheduler.cycle.matching import tolerates
from phalanx.scheduler.cycle.rows import ALWAYS, NEVER, Ask, Rows, Scorer, never, touched
from phalanx.scheduler.cycle.session import Session
from phalanx.scheduler.cycle.specs import NodeSpec, Taint
from phalanx.scheduler.plugin_parts.neighbours import Neighbours

_MIB = 1024 * 1024
_MIN_BYTES, _MAX_BYTES = 23 * _MIB, 1000 * _MIB
"""The bounds of the image score. The score is 0 if a node has at most _MIN_BYTES of a task's
images, and 100 if it has at least _MAX_BYTES for each image. The module's docstring says how bytes
count.
"""
_EXACT = 1 << 45
"""The largest amount that still fits into the 53 bits of a double when it is multiplied by a
hundred.

For smaller amounts, a quotient up to 100 that is not whole differs from the next whole number by
more than the rounding error.
"""

DEFAULTS = {
    "leastrequested": 1,
    "mostrequested": 0,
    "nodeaffinity": 2,
    "podaffinity": 2,
    "balancedresource": 1,
    "tainttoleration": 3,
    "imagelocality": 1,
    "podtopologyspread": 2,
}


class NodeOrder:
    """The plugin nodeorder. Argument: `<name>.weight` for each name in DEFAULTS. Nodes and tasks
    declare their `images`. An image without a tag counts as having the tag latest.
    """

    name = "nodeorder"
    accepts: ClassVar[Accepted] = {f"{k}.weight": WHOLE for k in DEFAULTS}

    def __init__(self, arguments: Arguments) -> None:
        self.weights = {k: whole(arguments, f"{k}.weight", v) for k, v in DEFAULTS.items()}

    def open(self, session: Session) -> None:
        cluster = session.cluster
        w = self.weights
        gpu = cluster.dims.index.get("nvidia.com/gpu")
        least, most, balanced = w["leastrequested"], w["mostrequested"], w["balancedresource"]
        nodes = _nodes(cluster)

        def load(rows: Rows, ask: Ask) -> Vector:
            parts = []
            if least:
                parts.append(_weighted(least, _least(rows, ask.eq_class, nodes)))
            if most:
                parts.append(_weighted(most, _most(rows, ask.eq_class, nodes)))
            if balanced:
                parts.append(_weighted(balanced, _balance(rows, ask.eq_class, gpu, nodes=nodes)))
            out = parts[0]
            for part in parts[1:]:
                out += part
            return out

        if least or most or balanced:
            rule = Scorer(name="load", score=load, changes=touched, lasting=True)
            session.add("scorer", self.name, rule)
        self._score_preferences(session, cluster)
        here = cluster.described("images", _images)
        if w["imagelocality"] and any(here):
            pulled = Images(here)
            session.add(
                "scorer",
                self.name,
                Scorer(
                    name="images",
                    score=lambda rows, ask: w["imagelocality"] * pulled.score(rows, ask),
                    changes=never,
                    lasting=True,
                ),
            )
        neighbours = Neighbours(session)
        if w["podaffinity"]:
            session.add(
                "scorer",
                self.name,
                Scorer(
                    name="podaffinity",
                    score=lambda rows, ask: w["podaffinity"] * neighbours.affinity(rows, ask),
                    changes=neighbours.affinity_changes,
                    lasting=neighbours.absent,
                ),
            )
        if w["podtopologyspread"]:
            session.add(
                "scorer",
                self.name,
                Scorer(
                    name="podtopologyspread",
                    score=lambda rows, ask: w["podtopologyspread"] * neighbours.spread(rows, ask),
                    changes=neighbours.spread_changes,
                    lasting=neighbours.absent,
                ),
            )

    def _score_preferences(self, session: Session, cluster: Cluster) -> None:
        """Register the scorers of node affinity and of taints. Their scores do not change when work
        is placed.
        """
        near, taints = self.weights["nodeaffinity"], self.weights["tainttoleration"]
        soft = cluster.described("soft taints", _soft_taints)
        tainted = any(soft)

        def affinity(rows: Rows, ask: Ask) -> Vector:
            found = ask.eq_class.shape.affinity
            if found is None or not found.node_preferred:
                return np.zeros(len(rows))
            sums = np.zeros(len(cluster.nodes))
            for wish in found.node_preferred:
                sums += wish.weight * cluster.labelled(*wish.matches)
            out: Vector = sums[rows.index] * near
            return out

        def toleration(rows: Rows, ask: Ask) -> Vector:
            if not tainted:
                return np.full(len(rows), 100.0 * taints)
            kept = [
                t for t in ask.eq_class.shape.tolerations if t.effect in ("", "PreferNoSchedule")
            ]
            bad = np.array([sum(not tolerates(kept, t) for t in soft[n]) for n in rows.index])
            worst = bad.max(initial=0)
            if worst == 0:
                return np.full(len(rows), 100.0 * taints)
            return np.asarray((100 - 100 * bad // worst) * taints, dtype=np.float64)

        if near:
            rule = Scorer(name="affinity", score=affinity, changes=never, lasting=True)
            session.add("scorer", self.name, rule)
        if taints:
            session.add(
                "scorer",
                self.name,
                Scorer(
                    name="taints",
                    score=toleration,
                    changes=lambda _: ALWAYS if tainted else NEVER,
                    lasting=not tainted,
                ),
            )


class _Nodes(NamedTuple):
    """Facts about all nodes that make scoring faster."""

    whole: bool
    """Whether every node has some cpu and some memory."""
    small: bool
    """Whether every node has less than `_EXACT` of cpu and of memory."""

    def mean(self, amounts: Counts, capacity: Counts) -> Vector:
        """Return the mean of cpu and memory in whole hundredths of the capacity, rounded down.

        Both values are rounded down before the mean is taken. A resource of which a node has none
        is left out. `amounts` is overwritten.
        """
        amounts *= 100
        counted: Counts | int = 2
        if not self.whole:
            counted = np.maximum((capacity > 0).sum(axis=0), 1)
            capacity = np.maximum(capacity, 1)
        # Processors divide doubles several times as fast as integers.
        parts = np.floor(amounts / capacity) if self.small else amounts // capacity
        mean: Vector = (parts[CPU] + parts[MEMORY]) / counted
        return np.floor(mean, out=mean)


def _nodes(cluster: Cluster) -> _Nodes:
    capacity = cluster.capacity[:, : MEMORY + 1]
    return _Nodes(whole=bool((capacity > 0).all()), small=int(capacity.max(initial=0)) < _EXACT)


class Images:
    """Scores nodes by the images that they already have. Images that many nodes have count more."""

    def __init__(self, here: Sequence[Mapping[str, float]]) -> None:
        self._here = here
        nodes = Counter(name for images in here for name in images)
        self._spread = {name: count / len(here) for name, count in nodes.items()}

    def score(self, rows: Rows, ask: Ask) -> Vector:
        wanted = [_tagged(name) for name in ask.eq_class.shape.images]
        most = _MAX_BYTES * max(len(wanted), 1)
        out = np.zeros(len(rows))
        for i, n in enumerate(rows.index if wanted else ()):
            images = self._here[n]
            found = sum(int(images[w] * self._spread[w]) for w in wanted if w in images)
            found = min(max(found, _MIN_BYTES), most)
            out[i] = (found - _MIN_BYTES) * 100 // (most - _MIN_BYTES)
        return out


def _images(nodes: Sequence[NodeSpec]) -> list[dict[str, float]]:
    return [{_tagged(name): size for name, size in n.images} for n in nodes]


def _soft_taints(nodes: Sequence[NodeSpec]) -> list[list[Taint]]:
    return [[t for t in n.taints if t.effect == "PreferNoSchedule"] for n in nodes]


def _tagged(image: str) -> str:
    """Return an image's name with a tag. A name without one gets the tag `latest`."""
    return image if ":" in image.rpartition("/")[2] else f"{image}:latest"


def _weighted(weight: int, scores: Vector) -> Vector:
    if weight != 1:
        scores *= weight
    return scores


def _least(rows: Rows, eq_class: EquivalenceClass, nodes: _Nodes) -> Vector:
    capacity = rows.capacities()[: MEMORY + 1]
    free = capacity - (rows.weighed() + eq_class.weighed[:, None])
    np.maximum(free, 0, out=free)
    return nodes.mean(free, capacity)


def _most(rows: Rows, eq_class: EquivalenceClass, nodes: _Nodes) -> Vector:
    capacity = rows.capacities()[: MEMORY + 1]
    asked = rows.weighed() + eq_class.weighed[:, None]
    np.minimum(asked, capacity, out=asked)
    return nodes.mean(asked, capacity)


def _balance(rows: Rows, eq_class: EquivalenceClass, gpu: int | None, *, nodes: _Nodes) -> Vector:
    if eq_class.best_effort:
        return np.zeros(len(rows))
    has_gpu = gpu is not None and bool(eq_class.request[gpu] > 0)
    resources = [CPU, MEMORY, gpu] if gpu is not None and has_gpu else slice(MEMORY + 1)
    capacity = rows.capacities()[resources]
    asked = rows.asked_of_all()[resources] + eq_class.request[resources][:, None]
    spread: Vector
    if not has_gpu and nodes.whole:
        fractions = asked / capacity
        np.minimum(fractions, 1.0, out=fractions)
        spread = fractions[CPU] - fractions[MEMORY]
        np.abs(spread, out=spread)
        spread *= 0.5
    else:
        counted = capacity > 0
        fractions = np.minimum(asked / np.maximum(capacity, 1), 1.0)
        if has_gpu and counted.all():
            spread = _deviation(fractions)
        else:
            spread = _spread(fractions, counted)
    np.subtract(1, spread, out=spread)
    spread *= 100
    return np.trunc(spread, out=spread)


def _deviation(fractions: Vector) -> Vector:
    """Return for each node the standard deviation of its three fractions."""
    mean = (fractions[0] + fractions[1] + fractions[2]) / 3
    away = (fractions - mean) ** 2
    deviation: Vector = np.sqrt((away[0] + away[1] + away[2]) / 3)
    return deviation


def _spread(fractions: Vector, counted: Flags) -> Vector:
    """Return half the distance of two fractions or, for more than two, their standard deviation."""
    n = np.maximum(counted.sum(axis=0), 1)
    mean = (fractions * counted).sum(axis=0) / n
    squares = (((fractions - mean) ** 2) * counted).sum(axis=0) / n
    deviation: Vector = np.sqrt(squares)
    high = np.where(counted, fractions, -np.inf).max(axis=0)
    low = np.where(counted, fractions, np.inf).min(axis=0)
    two = np.where(np.isfinite(high - low), np.abs(high - low) / 2, 0.0)
    return np.where(n == 2, two, np.where(n >= 3, deviation, 0.0))
