"""Rules for choosing devices, by name."""

from __future__ import annotations

from collections.abc import Sequence

from phalanx.resources.devices import DeviceChooser, LowestIndex
from phalanx.resources.topology import Topology

RULES = ("pack", "first-fit", "lowest-index")


def device_rule(name: str, topology: Topology | None = None) -> DeviceChooser:
    """The rule called `name`, for a node of this `topology`.

    `pack` is the exact rule over the wiring, and the lowest numbers where no wiring is known;
    `first-fit` the first run of neighbouring numbers, as neighbours mostly share a board;
    `lowest-index` the lowest numbers, whatever they are.

    Raises ValueError for any other name.
    """
    if name == "pack":
        return topology if topology is not None else LowestIndex()
    if name == "first-fit":
        return FirstFit()
    if name == "lowest-index":
        return LowestIndex()
    raise ValueError(f"unknown rule for devices {name!r}; one of {', '.join(RULES)}")


class FirstFit:
    """Takes the first run of consecutive numbers; without one, the lowest numbers."""

    def pick(self, free: Sequence[int], count: int) -> tuple[int, ...]:
        numbers = sorted(free)
        for at in range(len(numbers) - count + 1):
            run = numbers[at : at + count]
            if run and run[-1] - run[0] == count - 1:
                return tuple(run)
        return LowestIndex().pick(free, count)
