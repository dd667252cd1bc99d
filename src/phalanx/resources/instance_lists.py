"""Instances as plain lists of units, one entry for each device, and their bounded arithmetic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from phalanx.resources.devices import LowestIndex, take
from phalanx.resources.quantities import SCALE

Instances = Mapping[str, Sequence[int]]
"""Units left on each instance of each resource; a divisible resource has one instance."""

ACCELERATORS = frozenset({"GPU", "neuron_cores", "TPU", "NPU", "HPU", "RBLN"})
"""The resources that come as numbered devices."""


def create(totals: Mapping[str, int], numbered: frozenset[str]) -> dict[str, list[int]]:
    """Instances for totals in units: one of a whole for each numbered device, else one for all."""
    return {
        name: [SCALE] * (units // SCALE) if name in numbered else [units]
        for name, units in totals.items()
    }


def allocate(
    left: Instances, request: Mapping[str, int], numbered: frozenset[str]
) -> dict[str, list[int]] | None:
    """What `request` takes of each instance, or None when any of it is not there.

    Unlike `NodeResources` it takes one device and a half when asked to.
    """
    taken: dict[str, list[int]] = {}
    for name, units in request.items():
        has = left.get(name, ())
        if name in numbered:
            devices = take(dict(enumerate(has)), units, LowestIndex())
            if devices is None:
                return None
            share = dict(devices)
            taken[name] = [share.get(index, 0) for index in range(len(has))]
        elif sum(has) < units:
            return None
        else:
            taken[name] = [units]
    return taken


def subtract_bounded(
    before: Sequence[int], taken: Sequence[int], *, allow_negative: bool = False
) -> tuple[list[int], list[int]]:
    """(what is left, what was lacking): nothing falls below zero unless that is allowed."""
    _check_lengths(before, taken)
    if allow_negative:
        return [b - t for b, t in zip(before, taken, strict=True)], [0] * len(before)
    after = [max(0, b - t) for b, t in zip(before, taken, strict=True)]
    return after, [max(0, t - b) for b, t in zip(before, taken, strict=True)]


def add_bounded(
    before: Sequence[int], returned: Sequence[int], total: Sequence[int]
) -> tuple[list[int], list[int]]:
    """(what is there then, what was too much): nothing rises above its `total`."""
    _check_lengths(before, returned)
    _check_lengths(before, total)
    summed = [b + r for b, r in zip(before, returned, strict=True)]
    after = [min(s, t) for s, t in zip(summed, total, strict=True)]
    return after, [s - a for s, a in zip(summed, after, strict=True)]


def _check_lengths(left: Sequence[int], right: Sequence[int]) -> None:
    if len(left) != len(right):
        raise ValueError(f"{len(left)} instances and {len(right)} amounts do not go together")
