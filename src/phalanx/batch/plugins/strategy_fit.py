"""Pack one resource while spreading another.

Source: Volcano's resource-strategy-fit plugin. Per resource r with weight w_r that the task
requests: MostAllocated (used + req) / capacity, LeastAllocated (capacity - used - req) / capacity;
score = 100 * weight * sum w_r * s_r / sum w_r, and 0 if one would not fit. Names may end in `*`.
`sra` (scarce resources are kept for those who need them) takes score from nodes that have a scarce
resource the task does not request; `proportional` keeps cpu and memory for the devices that are
still free.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

import msgspec
import numpy as np

from phalanx.batch.amounts import PODS, Flags, Vector
from phalanx.batch.arguments import Arguments, flag, number, text, whole
from phalanx.batch.cluster import Cluster
from phalanx.batch.klass import Klass
from phalanx.batch.rows import Ask, Filter, Rows, Scorer, never, touched
from phalanx.batch.session import Session

ANNOTATION = "volcano.sh/resource-strategy-fit"
Strategy = tuple[bool, int]
"""(pack?, weight)"""


class StrategyFit:
    """`resourceStrategyFitWeight` 10; `resources: {name: {type, weight}}`, by default cpu and
    memory LeastAllocated; `sra: {enable, resources, weight, resourceWeight}`;
    `proportional: {enable, resources, resourceProportion}`. A task's annotation
    volcano.sh/resource-strategy-fit (JSON of `resources`) overrides them."""

    name = "resource-strategy-fit"

    def __init__(self, arguments: Arguments) -> None:
        weight = whole(arguments, "resourceStrategyFitWeight", 10)
        self._weight = weight if weight > 0 else 10
        self._strategies = _strategies(arguments.get("resources")) or {
            "cpu": (False, 1),
            "memory": (False, 1),
        }
        sra = arguments.get("sra")
        self._sra: Mapping[str, Any] = sra if isinstance(sra, dict) else {}
        kept = arguments.get("proportional")
        self._kept: Mapping[str, Any] = kept if isinstance(kept, dict) else {}

    def open(self, session: Session) -> None:
        cluster = session.cluster
        of_class: dict[int, list[tuple[int, bool, int]]] = {}

        def wanted(klass: Klass) -> list[tuple[int, bool, int]]:
            known = of_class.get(klass.index)
            if known is None:
                known = of_class[klass.index] = self._for_class(cluster, klass)
            return known

        def score(rows: Rows, ask: Ask) -> Vector:
            out = np.zeros(len(rows))
            total = 0
            fits = np.ones(len(rows), dtype=np.bool_)
            for r, pack, weight in wanted(ask.klass):
                capacity = rows.capacity(r)
                filled = rows.used(r) + ask.klass.request[r]
                fits &= (capacity == 0) | (filled <= capacity)
                part = np.where(capacity > 0, filled / np.maximum(capacity, 1), 0.0)
                out += weight * (part if pack else np.where(capacity > 0, 1.0 - part, 0.0))
                total += weight
            if total:
                out /= total
            return np.where(fits, out * 100.0 * self._weight, 0.0)

        session.add("scorer", self.name, Scorer(name=self.name, score=score, changes=touched))
        if flag(self._sra, "enable", False):
            self._keep_scarce(session)
        if flag(self._kept, "enable", False):
            self._keep_proportions(session)

    def _for_class(self, cluster: Cluster, klass: Klass) -> list[tuple[int, bool, int]]:
        strategies = self._strategies
        own = dict(klass.shape.annotations).get(ANNOTATION)
        if own:
            try:
                strategies = _strategies(msgspec.json.decode(own)) or strategies
            except msgspec.DecodeError:
                strategies = self._strategies
        out = []
        for r in klass.asked:
            if r == PODS:
                continue
            found = _lookup(strategies, cluster.dims.names[r])
            if found is not None:
                out.append((r, *found))
        return out

    def _keep_scarce(self, session: Session) -> None:
        index = session.cluster.dims.index
        names = [n.strip() for n in text(self._sra, "resources").split(",") if n.strip()]
        weights = self._sra.get("resourceWeight")
        each = weights if isinstance(weights, dict) else {}
        scarce = [(index[n], number(each, n, 1.0)) for n in names if n in index]
        total = sum(w for _, w in scarce)
        weight = number(self._sra, "weight", 10.0)

        def score(rows: Rows, ask: Ask) -> Vector:
            out = np.zeros(len(rows))
            for r, w in scarce:
                if ask.klass.request[r] == 0:
                    out += w * (rows.capacity(r) == 0)
            return out * (100.0 * weight / total)

        if total:
            session.add("scorer", self.name, Scorer(name="scarce", score=score, changes=never))

    def _keep_proportions(self, session: Session) -> None:
        cluster = session.cluster
        dims = cluster.dims
        names = [n.strip() for n in text(self._kept, "resources").split(",") if n.strip()]
        rates = self._kept.get("resourceProportion")
        each = rates if isinstance(rates, dict) else {}
        kept = [
            (dims.index[n], number(each, f"{n}.cpu", 1.0), number(each, f"{n}.memory", 1.0))
            for n in names
            if n in dims.index
        ]

        def passes(rows: Rows, ask: Ask) -> Flags:
            good = np.ones(len(rows), dtype=np.bool_)
            for r, cores, gigabytes in kept:
                if ask.klass.request[r] > 0:
                    return np.ones(len(rows), dtype=np.bool_)
                devices = (rows.capacity(r) - rows.used(r)) / dims.scale[r]
                cpu = (rows.capacity(0) - rows.used(0) - ask.klass.request[0]) / 1000.0
                memory = (rows.capacity(1) - rows.used(1) - ask.klass.request[1]) / 1e9
                good &= (cpu >= devices * cores) & (memory >= devices * gigabytes)
            return good

        if kept:
            session.add("filter", self.name, Filter(reason="proportion", passes=passes,
                                                    changes=touched, curable=True))  # fmt: skip


def _strategies(written: Any) -> dict[str, Strategy]:
    """`{name: {type, weight}}`; an unknown type spreads, a weight below 1 counts as 1."""
    out: dict[str, Strategy] = {}
    for name, entry in (written if isinstance(written, dict) else {}).items():
        given = entry if isinstance(entry, dict) else {}
        weight = whole(given, "weight", 1)
        out[str(name)] = (given.get("type") == "MostAllocated", weight if weight > 0 else 1)
    return out


def _lookup(strategies: Mapping[str, Strategy], name: str) -> Strategy | None:
    """The strategy of that name, else of the longest pattern with `*` that covers it."""
    if name in strategies:
        return strategies[name]
    fitting = [p for p in strategies if "*" in p and fnmatchcase(name, p)]
    return strategies[max(fitting, key=lambda p: (len(p), p))] if fitting else None
