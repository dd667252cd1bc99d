"""Strategies in the form in which messages carry them: the allowed keys, and the labels that a
strategy asks for.

Nodes import this module when they start. The policies, which need numpy, are imported later.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from phalanx.scheduler.placement.labels import ANY_NODE, LabelSelector, condition

WHOLE_GROUP = -2
"""Stands in place of a bundle's index for any bundle of the group. Work with this index waits while
a lost bundle of the group is being placed again.
"""


class _Wire(msgspec.Struct, forbid_unknown_fields=True):
    """A strategy in a message, with all keys that it may have."""

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
    """Raise ValueError for a strategy that no policy can read. This is checked because a process
    may send anything.
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
    """Return the label selectors of a strategy in order of preference. If it has none, return one
    that accepts every node.

    Raises ValueError for an invalid condition.
    """
    return [
        LabelSelector(tuple(condition(key, operator, values) for key, operator, values in one))
        for one in wire.get("labels") or ()
    ] or [ANY_NODE]
