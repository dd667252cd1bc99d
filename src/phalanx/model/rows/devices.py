"""Rows of devices, as a cluster's nodes saw them last."""

from __future__ import annotations

import msgspec

from phalanx.model.readable import size
from phalanx.model.rows.row import Row

STRANGER = "of no job here"
"""Whose a process is that the node has not started."""


class DeviceInfo(Row, frozen=True):
    """A GPU. What is None its driver does not tell, or nothing was read of it yet."""

    node_id: str
    """In hex."""
    number: int
    """By which its node hands it out: it is named `NODE/gpuNUMBER`."""
    state: str
    """ok, suspect or bad."""
    action: str
    """What has to be done to one that is bad."""
    reason: str
    """Why it is not ok, or is closed; empty when all is well."""
    is_closed: bool
    """Whether nothing new gets it: it is bad, or somebody has cordoned it."""
    left: float
    """The part of it that is free, from 0 to 1."""
    holders: list[str]
    """To whom it was given, in words."""
    uuid: str = ""
    minor: int | None = None
    """Its file is /dev/nvidiaMINOR."""
    model: str = ""
    busy: float | None = None
    """The part of time in which anything ran on it lately, from 0 to 1."""
    memory_used: int | None = None
    memory_total: int | None = None
    """In bytes."""
    power_w: float | None = None
    power_limit_w: float | None = None
    temperature_c: float | None = None
    ecc_corrected: int | None = None
    ecc_uncorrected: int | None = None
    processes: list[tuple[int, int | None, str]] = msgspec.field(default_factory=list)
    """(pid, its bytes on the device, whose it is; empty: nobody's that the node has started)."""

    @property
    def processes_text(self) -> list[str]:
        """Each of its processes, in words."""
        return [
            f"{pid} {holder or STRANGER}" + ("" if memory is None else f", {size(memory)}")
            for pid, memory, holder in self.processes
        ]

    @property
    def strangers(self) -> int:
        """How many of its processes the node has not started."""
        return sum(not holder for _, _, holder in self.processes)
