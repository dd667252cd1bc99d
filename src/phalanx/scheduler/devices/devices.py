"""Takes amounts from numbered devices: whole devices, and a share of one device. A share never
spans two devices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from phalanx.model.gpu_sharing import GPU, MEMORY
from phalanx.scheduler.devices.quantities import SCALE, from_units


class DeviceChooser(Protocol):
    """Chooses among devices that are entirely free. Topology implements this protocol."""

    def pick(self, free: Sequence[int], count: int) -> tuple[int, ...]:
        """Return `count` of the `free` device numbers, ascending; empty if there are too few."""


class LowestIndex:
    """The chooser that takes the devices with the lowest numbers."""

    def pick(self, free: Sequence[int], count: int) -> tuple[int, ...]:
        return tuple(sorted(free)[:count]) if len(free) >= count else ()


def check_whole(request: Mapping[str, int], numbered: frozenset[str]) -> None:
    """Raise ValueError if `request` (in units) asks for a fractional number of devices above one.
    If the request is for GPUs by their memory, its amount of GPUs is not checked, because the
    number of GPUs is a separate term.
    """
    if MEMORY in request:
        numbered -= {GPU}
    for name in numbered:
        if name in request and (units := request[name]) > SCALE and units % SCALE:
            asked = from_units(units)
            raise ValueError(
                f"{name}: above 1, whole numbers only, not {asked:g}; "
                f"ask for {int(asked)} or {int(asked) + 1}"
            )


def take(
    left: Mapping[int, int], demand: int, chooser: DeviceChooser
) -> tuple[tuple[int, int], ...] | None:
    """Return (device number, units) for `demand` units out of what is `left` on each device.

    Whole devices come first; `chooser` picks them among the devices that are entirely free. The
    remaining fraction comes from the device that has the least left among those with enough. Among
    equal devices the lowest number wins; among unused devices the chooser decides. Returns None if
    the demand cannot be met: halves of two devices do not make a device.
    """
    taken: dict[int, int] = {}
    whole, fraction = divmod(demand, SCALE)
    if whole:
        free = [index for index in sorted(left) if left[index] == SCALE]
        picked = chooser.pick(free, whole)
        if not picked:
            return None
        taken.update(dict.fromkeys(picked, SCALE))
    if fraction:
        fits = [
            (left[index], index)
            for index in sorted(left)
            if left[index] >= fraction and index not in taken
        ]
        if not fits:
            return None
        least, index = min(fits)
        if least == SCALE:
            (index,) = chooser.pick([index for _, index in fits], 1)
        taken[index] = fraction
    return tuple(sorted(taken.items()))
