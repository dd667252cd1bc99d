"""Fill nodes that are already in use.

Source: Volcano's binpack plugin. score = 100 * binpack.weight * sum_r w_r * (used_r + req_r) /
capacity_r / sum_r w_r, over the resources that the task requests and that have a weight; 0 if any
of them would not fit, or the node has none of it.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from phalanx.batch.accepted import TEXT, WHOLE, Accepted
from phalanx.batch.amounts import PODS, Vector
from phalanx.batch.arguments import Arguments, text, whole
from phalanx.batch.klass import Klass
from phalanx.batch.rows import Ask, Rows, Scorer, touched
from phalanx.batch.session import Session


class Binpack:
    """`binpack.weight` 1, `binpack.cpu` 1, `binpack.memory` 1, `binpack.resources` (names with
    commas), `binpack.resources.<name>` 1."""

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
        of_class: dict[int, list[tuple[int, int, int]]] = {}

        def asked(klass: Klass) -> list[tuple[int, int, int]]:
            known = of_class.get(klass.index)
            if known is None:
                known = of_class[klass.index] = [
                    (r, int(klass.request[r]), weights[r])
                    for r in klass.asked
                    if r != PODS and r in weights
                ]
            return known

        def score(rows: Rows, ask: Ask) -> Vector:
            out = np.zeros(len(rows))
            total = 0
            fits = np.ones(len(rows), dtype=np.bool_)
            for r, request, weight in asked(ask.klass):
                capacity = rows.capacity(r)
                filled = rows.used(r) + request
                fits &= (filled <= capacity) & (capacity > 0)
                out += filled * weight / np.maximum(capacity, 1)
                total += weight
            if total == 0:
                return np.zeros(len(rows))
            return np.where(fits, out * (100.0 * self.weight / total), 0.0)

        rule = Scorer(name=self.name, score=score, changes=touched, lasting=True)
        session.add("scorer", self.name, rule)
