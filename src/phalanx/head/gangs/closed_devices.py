"""Names closed devices as the reason why work waits for GPUs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from phalanx.model.rows.explanation import Explanation, Reason

CODE = "devices-closed"
_NEVER_FITS = "never-fits"
_LACKS = frozenset({"resource", _NEVER_FITS})
"""Codes of reasons that would disappear if there were more of a resource."""
_GPUS = ("GPU", "nvidia.com/gpu")
_NAMED = 4
"""The largest number of devices that a sentence names."""


def because_of_closed(because: Sequence[Reason], closed: Sequence[str]) -> list[Reason]:
    """Return the main reasons, with one sentence about closed devices in place of all reasons that
    these devices cause.

    `closed`: each device's name and the reason why it is closed, in words.
    """
    return _put(_said(closed), because) if closed else list(because)


def _said(closed: Sequence[str]) -> Reason:
    return Reason(
        reason=CODE,
        count=len(closed),
        detail={"devices": list(closed)},
        sentence=closed_sentence(closed),
        change=f"phalanx uncordon {closed[0].partition(' ')[0]}, if it is healthy",
    )


def with_closed_devices(found: Explanation, closed: Sequence[str]) -> Explanation:
    """Return the explanation, with closed devices named where it says that no node has enough GPUs.

    `closed`: each device's name and the reason why it is closed, in words. On submission, the head
    refuses work that asks for more GPUs than any node has. So if a later reason says that no node
    has enough GPUs, devices were closed.
    """
    if not closed or not any(_is_of_gpus(one.reason, one.detail) for one in _all_reasons(found)):
        return found
    said = _said(closed)
    because = _put(said, found.because)
    alike = found.tasks if found.tasks is not msgspec.UNSET else ()
    return msgspec.structs.replace(
        found,
        because=because,
        reasons=[*_without(found.reasons), *([] if said in because else [said])],
        tasks=found.tasks
        if found.tasks is msgspec.UNSET
        else [msgspec.structs.replace(one, reasons=_without(one.reasons)) for one in alike],
    )


def closed_sentence(closed: Sequence[str]) -> str:
    """Return a sentence that names closed devices. `closed`: each device's name and the reason why
    it is closed, in words.
    """
    count = len(closed)
    named = "; ".join(closed[:_NAMED]) + (f"; and {count - _NAMED} more" if count > _NAMED else "")
    return f"{count} GPU{'s take' if count > 1 else ' takes'} no new work: {named}"


def is_for_closed(code: str, detail: Mapping[str, Any]) -> bool:
    """Whether a reason reports that no node has the requested number of GPUs."""
    return code == _NEVER_FITS and _is_of_gpus(code, detail)


def _put(said: Reason, because: Sequence[Reason]) -> list[Reason]:
    """Return the reasons, with `said` in place of all reasons that closed devices cause."""
    left = _without(because)
    return [said, *left] if len(left) < len(because) else left


def _without(reasons: Sequence[Reason]) -> list[Reason]:
    return [one for one in reasons if not is_for_closed(one.reason, one.detail)]


def _all_reasons(found: Explanation) -> Iterator[Reason]:
    yield from found.reasons
    yield from found.because
    for alike in () if found.tasks is msgspec.UNSET else found.tasks:
        yield from alike.reasons


def _is_of_gpus(code: str, detail: Mapping[str, Any]) -> bool:
    return code in _LACKS and detail.get("resource") in _GPUS
