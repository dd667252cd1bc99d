"""Stranded amounts of a node: they are free, and waiting work requests them, but no waiting request
that includes them fits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

Shape = Mapping[str, float]
"""The request of one member, task, actor or bundle, by resource."""
WHOLE = 10_000
"""The units of a completely free device."""
_ROUNDING = 1e-9


class Free(NamedTuple):
    """The free amounts of one node by resource, and the free part of each numbered device in units
    of 1/10000.
    """

    amounts: Mapping[str, float]
    devices: Mapping[str, Sequence[int]]


def stranded(free: Free, shapes: Iterable[Shape]) -> dict[str, float]:
    """Return the free amount of each stranded resource of a node.

    A resource is stranded if shapes request it and none of these shapes fits. A resource that no
    shape requests is not stranded.
    """
    asked: dict[str, bool] = {}
    for shape in shapes:
        is_room = fits(free, shape)
        for name in shape:
            asked[name] = asked.get(name, False) or is_room
    return {
        name: amount
        for name, is_of_use in asked.items()
        if not is_of_use and (amount := free.amounts.get(name, 0.0)) > _ROUNDING
    }


def fits(free: Free, shape: Shape) -> bool:
    """Whether there is room for one request of this shape.

    A request for part of a device needs this part on a single device; a request for whole devices
    needs completely free devices.
    """
    for name, amount in shape.items():
        if free.amounts.get(name, 0.0) + _ROUNDING < amount:
            return False
        left = free.devices.get(name)
        if left is None:
            continue
        if amount < 1:
            if max(left, default=0) < round(amount * WHOLE):
                return False
        elif sum(units >= WHOLE for units in left) < amount:
            return False
    return True


def smallest(shapes: Iterable[Shape]) -> list[Shape]:
    """Return the shapes that must be tried to find the stranded resources.

    A shape is left out if another shape requests the same resources in amounts that are no larger:
    the other shape fits wherever this one fits.
    """
    of_names: dict[frozenset[str], list[Shape]] = {}
    for shape in shapes:
        asked = {name: amount for name, amount in shape.items() if amount > 0}
        kept = of_names.setdefault(frozenset(asked), [])
        if any(all(one[name] <= amount for name, amount in asked.items()) for one in kept):
            continue
        kept[:] = [one for one in kept if any(one[name] < amount for name, amount in asked.items())]
        kept.append(asked)
    return [shape for names, kept in of_names.items() if names for shape in kept]


def stranded_in_all(of_nodes: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Return the sums of the nodes' stranded amounts, by resource."""
    found: dict[str, float] = {}
    for amounts in of_nodes.values():
        for name, amount in amounts.items():
            found[name] = found.get(name, 0.0) + amount
    return found
