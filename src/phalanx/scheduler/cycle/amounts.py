"""Amounts of resources as vectors, and the comparisons that quotas need.

Amounts of nodes and tasks are whole thousandths (milli-cores, milli-devices), bytes or slots, so
that adding and subtracting them is exact. Quotas may be fractions, such as a third of the cluster,
so they are doubles. A quota that does not name a resource differs from a quota of zero. Therefore a
quota has flags, `has`, next to its values, `v`.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from phalanx.model.gpu_sharing import CARDS
from phalanx.model.gpu_sharing import MEMORY as GPU_MEMORY
from phalanx.scheduler.cycle.specs import Amounts

CPU, MEMORY, PODS = 0, 1, 2
EPSILON = 0.1
"""Quotas count as equal if they differ by less than this many milli-cores or bytes (Volcano's
`minResource`).
"""
INFINITE = 1e300
_OFTEN = 1 << 30
"""Stands for "any number of times": no request ever fits this often."""

Vector = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
MAX_OF_ONE = 10**16
"""The largest amount of one resource that a node may have or a task may request, in the resource's
smallest unit. A hundred times this amount still fits into 64 bits.
"""
MAX_IN_ALL = 4 * 10**18
"""The largest amount of one resource in a quota, of all nodes together, and of all tasks
together.
"""

ALIASES = {"gpu": "nvidia.com/gpu"}


def units(name: str) -> float:
    """Return how many counted units make one unit of the resource.

    Bytes and pod slots are counted whole, so the result is 1. Everything else is counted in
    thousandths.
    """
    plain = name in ("memory", "pods", "ephemeral-storage") or name.startswith("hugepages-")
    return 1.0 if plain else 1000.0


def is_counted(name: str) -> bool:
    """Whether placement counts this resource. Other resources without a slash in their names are
    ignored.
    """
    if name.startswith("count/"):
        return False
    known = name in ("cpu", "memory", "pods", "ephemeral-storage", "gpu")
    return known or "/" in name or name.startswith("hugepages-")


class Dimensions:
    """The resources of one cycle in a fixed order: cpu, memory, pods, then the others by name."""

    __slots__ = ("_always", "card_memory", "compared", "index", "names", "scalar", "scale")

    def __init__(self, names: Iterable[str], card_memory: float = 0.0) -> None:
        """`card_memory`: the memory of the largest GPU in bytes. Requests for GPU memory are
        converted to fractions of this GPU.
        """
        self.card_memory = card_memory
        others = {ALIASES.get(n, n) for n in names if is_counted(n)}
        self.names = ("cpu", "memory", "pods", *sorted(others - {"cpu", "memory", "pods"}))
        self.index = {n: i for i, n in enumerate(self.names)}
        self.index.update({a: self.index[n] for a, n in ALIASES.items() if n in self.index})
        self.scale = tuple(units(n) for n in self.names)
        self.scalar = np.array([i >= PODS for i in range(len(self.names))])
        self.compared = np.array([i != PODS for i in range(len(self.names))])
        """Whether rules compare the resource. This is false only for `pods`: every task takes one
        slot, so most rules ignore slots.
        """
        self._always: Flags = np.arange(len(self.names)) < PODS
        """The resources that every quota names: cpu and memory."""

    def __len__(self) -> int:
        return len(self.names)

    def counts(self, amounts: Amounts) -> Counts:
        """Return `amounts` in counted units (see `units`).

        Resources that are not counted are left out. Amounts above MAX_IN_ALL count as MAX_IN_ALL.
        """
        out = np.zeros(len(self.names), dtype=np.int64)
        for name, x in amounts:
            i = self.index.get(name)
            if i is not None:
                out[i] += round(min(max(x * self.scale[i], -MAX_IN_ALL), MAX_IN_ALL))
        if any(name == CARDS for name, _ in amounts):
            self._count_memory(out, dict(amounts))
        return out

    def _count_memory(self, out: Counts, amounts: dict[str, float]) -> None:
        """Set, in the counts `out` of a request for GPU memory, the amount of GPUs.

        The requested memory counts as a fraction of the largest GPU. A smaller GPU would be filled
        by a larger fraction, so these sums may be too low but never too high. The plugin
        gpu-sharing checks whether a card has room.
        """
        i = self.index.get("gpu")
        if i is not None and self.card_memory:
            share = min(amounts.get(GPU_MEMORY, 0.0) / self.card_memory, 1.0)
            out[i] = max(int(amounts[CARDS] * share * self.scale[i]), 1)

    def amount(self, amounts: Amounts) -> Amount:
        """Return `amounts` as a quota."""
        has = self._always.copy()
        for name, _ in amounts:
            i = self.index.get(name)
            if i is not None:
                has[i] = True
        return Amount(self.counts(amounts).astype(np.float64), has)

    def empty(self) -> Amount:
        return Amount(np.zeros(len(self.names)), self._always.copy())

    def written(self, i: int, x: float) -> float:
        """Return the number to display for the amount `x` of the resource with index `i`."""
        return x / self.scale[i]


class Amount:
    """A quota. `v` has an amount for each resource. `has` tells which resources the quota names; it
    always names cpu and memory.
    """

    __slots__ = ("has", "v")

    def __init__(self, v: Vector, has: Flags) -> None:
        self.v = v
        self.has = has

    def copy(self) -> Amount:
        return Amount(self.v.copy(), self.has.copy())

    def add(self, other: Amount) -> Amount:
        self.v += other.v
        self.has |= other.has
        return self

    def subtract(self, other: Amount) -> Amount:
        self.v -= other.v
        return self

    def scaled(self, ratio: float) -> Amount:
        return Amount(self.v * ratio, self.has.copy())

    def is_empty(self) -> bool:
        """Whether the quota names no amount above zero except of pod slots."""
        v = self.v
        return not (v[CPU] >= EPSILON or v[MEMORY] >= EPSILON or bool((v[3:] >= EPSILON).any()))

    def less_equal(self, other: Amount) -> bool:
        """Whether self is at most `other` in every resource that self names.

        A resource that `other` does not name counts as zero in `other`.
        """
        return bool(((self.v - other.v < EPSILON) | ~self.has).all())

    def cap(self, other: Amount, *, missing_is_zero: bool) -> Amount:
        """Lower the amounts of self, in place, to those of `other`. If self names a resource that
        `other` does not name, the amount becomes zero with `missing_is_zero`, and otherwise stays
        as it is.
        """
        low = np.minimum(self.v, other.v)
        unnamed = 0.0 if missing_is_zero else self.v
        self.v = np.where(other.has, low, np.where(self.has, unnamed, self.v))
        return self

    def maximum(self, other: Amount) -> Amount:
        """Return, as a new quota, the larger amount of each resource."""
        return Amount(np.maximum(self.v, other.v), self.has | other.has)

    def excess_over(self, other: Amount) -> Amount:
        """Return, as a new quota, by how much self exceeds `other` in each resource; zero where
        self does not exceed it.
        """
        return Amount(np.maximum(self.v - other.v, 0.0), self.has | other.has)

    def same(self, other: Amount) -> bool:
        return bool((self.v == other.v).all() and (self.has == other.has).all())

    def positive_indexes(self) -> list[int]:
        """Return the indexes of the resources whose amounts are above zero."""
        return [int(i) for i in np.flatnonzero(self.v >= EPSILON)]


def over_requested(dims: Dimensions, used: Vector, limit: Vector, request: Vector) -> list[int]:
    """Return the indexes of the requested resources of which `used` is above `limit`. Pods are left
    out. Amounts are compared exactly.
    """
    return [int(i) for i in np.flatnonzero((request > 0) & dims.compared & (used > limit))]


def fits_how_often(used: Vector, limit: Vector, asked: Iterable[tuple[int, float]]) -> int:
    """Return how many times a request can be added to `used` before one of its resources exceeds
    `limit`.

    `asked` is the request, as pairs of resource and amount.
    """
    held, most = used.tolist(), limit.tolist()
    fewest = _OFTEN
    for r, ask in asked:
        u, end = held[r], most[r]
        if u + fewest * ask <= end:
            continue
        fewest = int(max(0.0, (end - u) // ask))
        while fewest > 0 and u + fewest * ask > end:
            fewest -= 1
        while u + (fewest + 1) * ask <= end:
            fewest += 1
    return fewest


def within_partly(dims: Dimensions, used: Vector, limit: Vector, request: Vector) -> bool:
    """Whether `used` is at most `limit` in at least one requested resource. A resource that is zero
    on both sides does not count.
    """
    asked = (request > 0) & dims.compared & ~((used < EPSILON) & (limit < EPSILON))
    return bool((asked & (used - limit < EPSILON)).any())


def above_where_named(dims: Dimensions, used: Amount, limit: Amount, request: Vector) -> bool:
    """Whether `used` is above `limit` in a requested resource that `limit` names.

    Source: Volcano's `GreaterPartlyWithRelevantDimensions`.
    """
    given = np.where(dims.scalar, limit.has, limit.v >= EPSILON)
    return bool(((request > 0) & dims.compared & given & (used.v > limit.v)).any())


def shares_resource(dims: Dimensions, a: Vector, b: Vector, *, pods: bool = False) -> bool:
    """Whether both amounts of some resource are above zero. Pod slots count only with `pods`."""
    both = (a >= EPSILON) & (b >= EPSILON)
    return bool(both.any() if pods else (both & dims.compared).any())


def share(used: float, of: float) -> float:
    """Return used / of. If `of` is zero: 0 if nothing is used, and 1 otherwise."""
    if of == 0:
        return 0.0 if used == 0 else 1.0
    return used / of
