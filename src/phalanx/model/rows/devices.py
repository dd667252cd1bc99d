"""Rows of devices, as their nodes last read them."""

from __future__ import annotations

import msgspec

from phalanx.model.readable import size
from phalanx.model.rows.row import Row

STRANGER = "of no job here"
"""The holder that is shown for a process that the node did not start."""


class DeviceInfo(Row, frozen=True):
    """A GPU. A value is None if the GPU's driver does not report it, or if it was not read yet."""

    node_id: str
    """The node's id in hex."""
    number: int
    """The number by which the node assigns the GPU. The GPU's name is `NODE/gpuNUMBER`."""
    state: str
    """The GPU's state: ok, suspect or bad."""
    action: str
    """The action that a bad GPU needs."""
    reason: str
    """Why the GPU is not ok or gets no new work; "" for a GPU without problems."""
    is_closed: bool
    """Whether the GPU gets no new work, because it is bad or a user has cordoned it."""
    left: float
    """The free part of the GPU, from 0 to 1."""
    holders: list[str]
    """The descriptions of the GPU's holders."""
    uuid: str = ""
    minor: int | None = None
    """The number in the name of the GPU's file, /dev/nvidiaMINOR."""
    model: str = ""
    busy: float | None = None
    """The part of the recent time in which anything ran on the GPU, from 0 to 1."""
    memory_used: int | None = None
    memory_total: int | None = None
    """The bytes of the GPU's memory."""
    power_w: float | None = None
    power_limit_w: float | None = None
    temperature_c: float | None = None
    ecc_corrected: int | None = None
    ecc_uncorrected: int | None = None
    processes: list[tuple[int, int | None, str]] = msgspec.field(default_factory=list)
    """(pid, bytes on the device, holder) of each process on the GPU. The holder is "" for a process
    that the node did not start.
    """

    mode: str = ""
    """The mode in which the GPU is shared: time or mps; "" if the GPU is not shared."""
    profile: str = ""
    """The profile, if this GPU is a part of a split GPU (MIG); else ""."""
    sharers: list[tuple[str, int | None, int | None, int | None]] = msgspec.field(
        default_factory=list
    )
    """(holder, bytes held, bytes used, limit in bytes) of each sharer."""

    @property
    def sharers_text(self) -> list[str]:
        """A description of each sharer and its memory."""
        return [
            f"{holder} ({_size(used)} used, {_size(held)} held"
            + ("" if limit in (held, None) else f", limit {_size(limit)}")
            + ")"
            for holder, held, used, limit in self.sharers
        ]

    @property
    def processes_text(self) -> list[str]:
        """A description of each process on the GPU."""
        return [
            f"{pid} {holder or STRANGER}" + ("" if memory is None else f", {size(memory)}")
            for pid, memory, holder in self.processes
        ]

    @property
    def strangers(self) -> int:
        """The number of processes on the GPU that the node did not start."""
        return sum(not holder for _, _, holder in self.processes)


def _size(value: int | None) -> str:
    return "?" if value is None else size(value)
