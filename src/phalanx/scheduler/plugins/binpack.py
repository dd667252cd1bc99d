"""The plugin binpack: prefers nodes that are already in use.

Source: Volcano's binpack plugin. The score of a node is 100 * binpack.weight * sum_r w_r * (used_r
+ req_r) / capacity_r / sum_r w_r, over the resources r that the task requests and that have a
weight w_r. The score is 0 if any of these resources would not fit, or if the node has none of it.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np

from phalanx.scheduler.cycle.accepted import TEXT, WHOLE, Accepted
from phalanx.scheduler.cycle.amounts import PODS, Counts, Flags, Vector
from phalanx.scheduler.cycle.arguments import Arguments, text, whole
from phalanx.scheduler.cycle.equivalence_class import EquivalenceClass
from phalanx.scheduler.cycle.rows import Ask, Rows, Scorer, touched
from phalanx.scheduler.cycle.session import Session


class _Asked(NamedTuple):
    """The resources by which a class is scored: the class's request of each, and the weight of
    each. `weights` is None if all weights are 1. `whole_nodes`: whether every node has some of each
    of these resources.
    """

    resources: list[int] | slice
    request: Counts
    weights: Counts | None
    total: int
    whole_nodes: bool


class Binpack:
    """The plugin binpack. Arguments: `binpack.weight` (1), `binpack.cpu` (1), `binpack.memory` (1),
    `binpack.resources` (names separated by commas), `binpack.resources.<name>` (1).
    """

    name = "binpack"
    accepts: ClassVar[Accepted] = {
        "binpack.weight": WHOLE,
        "binpack.cpu": WHOLE,
        "binpack.memory": WHOLE,
        "binpack.resources": TEXT,
        "binpack.resources.*": WHOLE,
    }

    def __init__(self, arguments: Arguments) -> None:
        def weight(key: str) -> int:
            n = whole(arguments, key, 1)
            return n if n >= 0 else 1

        self.weight = weight("binpack.weight")
        self.weights = {"cpu": weight("binpack.cpu"), "memory": weight("binpack.memory")}
        for name in text(arguments, "binpack.resources").split(","):
            if name.strip():
                self.weights[name.strip()] = weight(f"binpack.resources.{name.strip()}")

    def open(self, session: Session) -> None:
        if self.weight == 0:
            return
        index = session.cluster.dims.index
        weights = {index[n]: w for n, w in self.weights.items() if n in index}
        everywhere: Flags = np.asarray((session.cluster.capacity > 0).all(axis=0))
        of_class: dict[int, _Asked] = {}

        def asked(eq_class: EquivalenceClass) -> _Asked:
            known = of_class.get(eq_class.index)
            if known is None:
                rs = [r for r in eq_class.asked if r != PODS and r in weights]
                weighed = [weights[r] for r in rs]
                known = of_class[eq_class.index] = _Asked(
                    resources=slice(len(rs)) if rs == list(range(len(rs))) else rs,
                    request=eq_class.request[rs][:, None],
                    weights=None if set(weighed) <= {1} else np.array(weighed)[:, None],
                    total=sum(weighed),
                    whole_nodes=bool(everywhere[rs].all()),
                )
            return known

        def score(rows: Rows, ask: Ask) -> Vector:
            rs, request, weighed, total, whole_nodes = asked(ask.eq_class)
            if total == 0:
                return np.zeros(len(rows))
            capacity = rows.capacities()[rs]
            filled = rows.used_of_all()[rs] + request
            fits = filled <= capacity
            if not whole_nodes:
                fits &= capacity > 0
                capacity = np.maximum(capacity, 1)
            if weighed is not None:
                filled *= weighed
            parts = filled / capacity
            out: Vector = parts[0]
            good: Flags = fits[0]
            for i in range(1, len(parts)):
                out += parts[i]
                good &= fits[i]
            out *= 100.0 * self.weight / total
            out *= good
            return out

        rule = Scorer(name=self.name, score=score, changes=touched, lasting=True)
        session.add("scorer", self.name, rule)
