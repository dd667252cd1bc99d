"""A strategy in the form in which messages carry it: its allowed keys, and the labels that it asks
for.

Nodes read this module when they start; the policies, which need numpy, are imported later.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from phalanx.scheduler.placement.labels import ANY_NODE, LabelSelector, condition

WHOLE_GROUP = -2
"""Instead of a bundle's index: any bundle, but no bundle while one of them waits for another
place.
"""


class _Wire(msgspec.Struct, forbid_unknown_fields=True):
    """The keys that a strategy may have."""

    name: str = ""
    node_id: str | None = None
    soft: bool = False
    spill_on_unavailable: bool = False
    fail_on_unavailable: bool = False
    labels: list[list[tuple[str, str, list[str]]]] | None = None
    group: str | None = None
    bundle: int = -1
    capture: bool = False
    near: str = ""
    bytes: int = 0
    any_gpu_memory: bool = False


def check_strategy(wire: Mapping[str, Any]) -> None:
    """Raise ValueError for a strategy that no policy can read, since a process may send
    anything.
    """
    try:
        read = msgspec.convert(wire, _Wire)
        for named in (read.group, read.near):
            bytes.fromhex(named or "")
    except (msgspec.ValidationError, ValueError) as error:
        raise ValueError(f"this is not a strategy: {error}") from None
    if read.group is not None and "bundle" not in wire:
        raise ValueError("a strategy for a placement group must name its bundle, or -1 for any")
    selectors_of(wire)


def selectors_of(wire: Mapping[str, Any]) -> list[LabelSelector]:
    """Return the label selectors in order of preference; one that accepts every node if none is
    requested.

    Raises ValueError for an invalid condition.
    """
    return [
        LabelSelector(tuple(condition(key, operator, values) for key, operator, values in one))
        for one in wire.get("labels") or ()
    ] or [ANY_NODE]
