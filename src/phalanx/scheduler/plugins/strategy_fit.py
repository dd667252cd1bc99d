"""The plugin resource-strategy-fit: packs one resource while spreading another.

Source: Volcano's resource-strategy-fit plugin. Each resource r with a weight w_r that the task
requests has a score s_r: (used + req) / capacity with the strategy MostAllocated, and (capacity -
used - req) / capacity with LeastAllocated. The score of the node is 100 * weight * sum w_r * s_r /
sum w_r, or 0 if any of these resources would not fit.

A name that ends in `*` stands for all names that begin in this way. An exact name takes precedence
over such a pattern, and a longer pattern over a shorter one. A name with `*` elsewhere is ignored.
`sra` keeps scarce resources for tasks that need them: it lowers the score of nodes with a scarce
resource that the task does not request. `proportional` keeps cpu and memory (in units of 10^9
bytes) for the devices that are still free.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import msgspec
import numpy as np

from phalanx.scheduler.cycle.accepted import FLAG, NUMBER, TEXT, WHOLE, Accepted, one_of
from phalanx.scheduler.cycle.amounts import ALIASES, PODS, Flags, Vector
from phalanx.scheduler.cycle.arguments import Arguments, flag, names, number, table, whole
from phalanx.scheduler.cycle.cluster import Cluster
from phalanx.scheduler.cycle.equivalence_class import EquivalenceClass
from phalanx.scheduler.cycle.rows import Ask, Filter, Rows, Scorer, never, touched
from phalanx.scheduler.cycle.session import Session

TYPE = "volcano.sh/resource-strategy-scoring-type"
WEIGHTS = "volcano.sh/resource-strategy-weight"
_PACK, _SPREAD = "MostAllocated", "LeastAllocated"
Strategy = tuple[bool, int]
"""The strategy of a resource: whether to pack it or to spread it, and its weight."""


class StrategyFit:
    """The plugin resource-strategy-fit. Arguments: `resourceStrategyFitWeight` (10; 0 turns the
    plugin off); `resources: {name: {type, weight 1}}`, by default cpu and memory LeastAllocated;
    `sra: {enable false, resources, weight 0, resourceWeight: {name: 1}}`; `proportional: {enable
    false, resources, resourceProportion: {name.cpu: 1, name.memory: 1}}`.

    A task's annotations volcano.sh/resource-strategy-scoring-type and -weight (JSON of resource ->
    weight) replace `resources` for this task. A task whose weights cannot be read gets no score.
    """

    name = "resource-strategy-fit"
    accepts: ClassVar[Accepted] = {
        "resourceStrategyFitWeight": WHOLE,
        "resources": {"*": {"type": one_of(_PACK, _SPREAD), "weight": WHOLE}},
        "sra": {
            "enable": FLAG,
            "resources": TEXT,
            "weight": WHOLE,
            "resourceWeight": {"*": WHOLE},
        },
        "proportional": {
            "enable": FLAG,
            "resources": TEXT,
            "resourceProportion": {"*": NUMBER},
        },
    }

    def __init__(self, arguments: Arguments) -> None:
        weight = whole(arguments, "resourceStrategyFitWeight", 10)
        self._weight = weight if weight >= 0 else 10
        given = table(arguments, "resources") or {"cpu": {}, "memory": {}}
        self._strategies = _strategies(given)
        self._sra = table(arguments, "sra")
        self._kept = table(arguments, "proportional")

    def open(self, session: Session) -> None:
        cluster = session.cluster
        of_class: dict[int, list[tuple[int, bool, int]]] = {}

        def wanted(eq_class: EquivalenceClass) -> list[tuple[int, bool, int]]:
            known = of_class.get(eq_class.index)
            if known is None:
                known = of_class[eq_class.index] = self._for_class(cluster, eq_class)
            return known

        def score(rows: Rows, ask: Ask) -> Vector:
            out = np.zeros(len(rows))
            total = 0
            fits = np.ones(len(rows), dtype=np.bool_)
            for r, pack, weight in wanted(ask.eq_class):
                capacity = rows.capacity(r)
                filled = rows.used(r) + ask.eq_class.request[r]
                fits &= (capacity == 0) | (filled <= capacity)
                part = np.where(capacity > 0, filled / np.maximum(capacity, 1), 0.0)
                out += weight * (part if pack else np.where(capacity > 0, 1.0 - part, 0.0))
                total += weight
            if total:
                out /= total
            return np.where(fits, out * 100.0 * self._weight, 0.0)

        if self._weight:
            session.add("scorer", self.name, Scorer(name=self.name, score=score, changes=touched))
        if flag(self._sra, "enable", False):
            self._keep_scarce(session)
        if flag(self._kept, "enable", False):
            self._keep_proportions(session)

    def _for_class(
        self, cluster: Cluster, eq_class: EquivalenceClass
    ) -> list[tuple[int, bool, int]]:
        strategies = _own(dict(eq_class.shape.annotations), self._strategies)
        out = []
        for r in eq_class.asked:
            if r == PODS:
                continue
            found = _lookup(strategies, cluster.dims.names[r])
            if found is not None:
                out.append((r, *found))
        return out

    def _keep_scarce(self, session: Session) -> None:
        index = session.cluster.dims.index
        each = table(self._sra, "resourceWeight")
        weights = {n: whole(each, n, 1) for n in names(self._sra, "resources")}
        weights = {n: w if w >= 0 else 1 for n, w in weights.items()}
        scarce = [(index[n], w) for n, w in weights.items() if n in index]
        total, weight = sum(weights.values()), whole(self._sra, "weight", 0)

        def score(rows: Rows, ask: Ask) -> Vector:
            out = np.zeros(len(rows))
            for r, w in scarce:
                if ask.eq_class.request[r] == 0:
                    out += w * (rows.capacity(r) == 0)
            return out * (100.0 * weight / total)

        if total and weight > 0:
            session.add("scorer", self.name, Scorer(name="scarce", score=score, changes=never))

    def _keep_proportions(self, session: Session) -> None:
        cluster = session.cluster
        dims = cluster.dims
        each = table(self._kept, "resourceProportion")

        def rate(key: str) -> float:
            given = number(each, key, 1.0)
            return given if given >= 0 else 1.0

        kept = [
            (dims.index[n], rate(f"{n}.cpu"), rate(f"{n}.memory"))
            for n in names(self._kept, "resources")
            if n in dims.index
        ]

        def passes(rows: Rows, ask: Ask) -> Flags:
            good = np.ones(len(rows), dtype=np.bool_)
            for r, cores, gigabytes in kept:
                if ask.eq_class.request[r] > 0:
                    return np.ones(len(rows), dtype=np.bool_)
                devices = (rows.capacity(r) - rows.used(r)) / dims.scale[r]
                cpu = (rows.capacity(0) - rows.used(0) - ask.eq_class.request[0]) / 1000.0
                memory = (rows.capacity(1) - rows.used(1) - ask.eq_class.request[1]) / 1e9
                enough = (cpu >= devices * cores) & (memory >= devices * gigabytes)
                good &= enough | (rows.capacity(r) == 0)
            return good

        if kept:
            rule = Filter(reason="proportion", passes=passes, changes=touched)
            session.add("filter", self.name, rule)


def _strategies(written: Arguments) -> dict[str, Strategy]:
    """Return the strategies that `{name: {type, weight}}` states. Without a type, the resource is
    spread. A weight below 1 counts as 1.
    """
    out: dict[str, Strategy] = {}
    for name in written:
        given = table(written, name)
        weight = whole(given, "weight", 1)
        if "*" not in name[:-1] and name != "*":
            out[ALIASES.get(name, name)] = (given.get("type") == _PACK, weight if weight > 0 else 1)
    return out


def _own(
    annotations: Mapping[str, str], strategies: Mapping[str, Strategy]
) -> Mapping[str, Strategy]:
    """Return the task's own strategies if its annotations declare a type, and otherwise the given
    ones. If the annotations declare a type, a resource to which they give no weight has no
    strategy.
    """
    how = annotations.get(TYPE)
    if how not in (_PACK, _SPREAD):
        return strategies
    try:
        weights = msgspec.json.decode(annotations.get(WEIGHTS, ""), type=dict[str, int])
    except (msgspec.DecodeError, msgspec.ValidationError):
        return {}
    return {n: (how == _PACK, w) for n, w in weights.items() if w > 0}


def _lookup(strategies: Mapping[str, Strategy], name: str) -> Strategy | None:
    """Return the strategy of that name or, if there is none, the strategy of the longest matching
    pattern `beginning*`.
    """
    if name in strategies:
        return strategies[name]
    fitting = [p for p in strategies if p.endswith("*") and name.startswith(p[:-1])]
    return strategies[max(fitting, key=len)] if fitting else None
