"""Says which GPUs nobody gets now, of what waits for more of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from phalanx.model.rows.explanation import Explanation, Reason

_LACKS = frozenset({"resource", "never-fits"})
"""Codes of reasons that more of a resource would change."""
_GPUS = ("GPU", "nvidia.com/gpu")
_NAMED = 4
"""So many devices are named."""


def with_closed_devices(found: Explanation, closed: Sequence[str]) -> Explanation:
    """`closed`: each device with why, in words."""
    if not closed or not any(map(_is_of_gpus, _all_reasons(found))):
        return found
    count = len(closed)
    named = "; ".join(closed[:_NAMED]) + (f"; and {count - _NAMED} more" if count > _NAMED else "")
    reason = Reason(
        reason="devices-closed",
        count=count,
        detail={"devices": list(closed)},
        sentence=f"{count} GPU{'s get' if count > 1 else ' gets'} nothing new: {named}",
        change="phalanx uncordon NODE/gpu3, for one that is well",
    )
    return msgspec.structs.replace(found, reasons=[*found.reasons, reason])


def _all_reasons(found: Explanation) -> Iterator[Reason]:
    yield from found.reasons
    yield from found.because
    for alike in () if found.tasks is msgspec.UNSET else found.tasks:
        yield from alike.reasons


def _is_of_gpus(reason: Reason) -> bool:
    return reason.reason in _LACKS and reason.detail.get("resource") in _GPUS
