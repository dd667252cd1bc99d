"""Finds the pairs of items with the largest sum of weights. A weight depends only on the kinds of
the two items, and many items are of the same kind. So only the number of pairs of each two kinds
must be found. HiGHS solves this small integer program (`scipy.optimize.milp`). Within a kind, items
are paired in order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import combinations_with_replacement
from typing import TypeAlias

import numpy as np

from phalanx_research.timed.workload import WorkloadError

Kind: TypeAlias = tuple[tuple[float, ...], ...]
Weight: TypeAlias = Callable[[Kind, Kind], float]


def matched(kinds: Sequence[Kind], weight: Weight) -> list[int | None]:
    """Return the partner of each item; None for an item without a partner. `weight` returns the
    weight of a pair of kinds, in either order. It must be a function of a module, because results
    are cached. Kinds with a weight of 0 or less are not paired. Equal arguments give equal
    partners, even if several choices are optimal. Raises WorkloadError if scipy is not installed.
    """
    of_kind: dict[Kind, list[int]] = {kind: [] for kind in sorted(set(kinds))}
    for i, kind in enumerate(kinds):
        of_kind[kind].append(i)
    partner: list[int | None] = [None] * len(kinds)
    counts = tuple(map(len, of_kind.values()))
    for (one, other), number in _couples(tuple(of_kind), counts, weight):
        for _ in range(number):
            i, j = of_kind[one].pop(0), of_kind[other].pop(0)
            partner[i], partner[j] = j, i
    return partner


@lru_cache(maxsize=65_536)
def _couples(
    kinds: tuple[Kind, ...], counts: tuple[int, ...], weight: Weight
) -> list[tuple[tuple[Kind, Kind], int]]:
    """Return the number of pairs to make of each two kinds, given the number of items of each kind.

    The result is cached, because most events need the same result as an earlier event.
    """
    pairs = [
        (a, b, weight(kinds[a], kinds[b]))
        for a, b in combinations_with_replacement(range(len(kinds)), 2)
        if a != b or counts[a] > 1
    ]
    pairs = [pair for pair in pairs if pair[2] > 0]
    if not pairs:
        return []
    try:
        from scipy.optimize import LinearConstraint, milp
    except ImportError:
        raise WorkloadError(
            "Muri's grouping needs scipy: pip install 'phalanx-research[packing]'"
        ) from None

    taken = np.zeros((len(kinds), len(pairs)))
    for column, (a, b, _) in enumerate(pairs):
        taken[a, column] += 1
        taken[b, column] += 1
    # Presolve is off, because it sometimes writes a line to standard output.
    found = milp(
        [-value for _, _, value in pairs],
        constraints=LinearConstraint(taken, ub=counts),
        integrality=np.ones(len(pairs)),
        options={"mip_rel_gap": 0.0, "presolve": False},
    )
    assert found.success, found.message
    numbers = np.rint(found.x).astype(int).tolist()
    return [
        ((kinds[a], kinds[b]), number)
        for (a, b, _), number in zip(pairs, numbers, strict=True)
        if number
    ]
