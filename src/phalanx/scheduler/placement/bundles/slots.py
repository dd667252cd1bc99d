"""Chooses which bundle of a placed group runs a task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from phalanx.scheduler.devices.quantities import from_units
from phalanx.scheduler.devices.sets import ResourceSet
from phalanx.scheduler.placement.outcome import Rejection, TurnedAway


@dataclass(frozen=True, kw_only=True)
class PlacedBundle:
    """A bundle on its node: the resources that it reserved, and those that its tasks have not
    taken.
    """

    node: str
    total: ResourceSet
    available: ResourceSet


@dataclass(frozen=True, kw_only=True)
class Slot:
    """The bundle that takes the task, and whether the task must wait for room in it."""

    bundle: int
    node: str
    is_available: bool


def pick_bundle(
    bundles: Sequence[PlacedBundle], request: ResourceSet, index: int = -1
) -> Slot | Rejection:
    """Return the bundle with this index as the place for a task, or a rejection if the task can
    never run there. Index -1 stands for the first bundle with room or, if no bundle has room, the
    first bundle that could ever have room.

    Bundles with resources that the task does not request, such as devices, are tried last, so that
    they stay free for other tasks. (For the same reason, the strategies try nodes with GPUs last.)
    All resources of a task come from one bundle. Raises ValueError for an index out of range.
    """
    if not -1 <= index < len(bundles):
        raise ValueError(
            f"bundle {index} of a group with {len(bundles)}: -1 for any, or 0 to {len(bundles) - 1}"
        )
    among: Sequence[int] = (index,)
    if index == -1:
        among = sorted(
            range(len(bundles)), key=lambda at: not bundles[at].total.keys() <= request.keys()
        )
    feasible = [at for at in among if request <= bundles[at].total]
    if not feasible:
        return Rejection(
            reason="infeasible", turned_away=tuple(_short(bundles, request, list(among)))
        )
    available = [at for at in feasible if request <= bundles[at].available]
    bundle = (available or feasible)[0]
    return Slot(bundle=bundle, node=bundles[bundle].node, is_available=bool(available))


def _short(
    bundles: Sequence[PlacedBundle], request: ResourceSet, among: list[int]
) -> list[TurnedAway]:
    rejections = []
    for name, units in request.items():
        short = [at for at in among if bundles[at].total.get(name, 0) < units]
        if short:
            most = max(bundles[at].total.get(name, 0) for at in short)
            rejections.append(
                TurnedAway(
                    filter="total",
                    nodes=len({bundles[at].node for at in short}),
                    resource=name,
                    asked=from_units(units),
                    most=from_units(most),
                )
            )
    return rejections
