"""What was seen of a node's devices at one moment: the driver's own values, before anybody judges.

A value is None where the device has none, or where its driver does not tell: a part of a split
device (MIG) has no use, a consumer's card no ECC.
"""

from __future__ import annotations

import msgspec

MAX_PROCESSES = 32
"""Of a device, of which a sample tells; further ones are counted only."""
MAX_ANCESTORS = 16


class DeviceProcess(msgspec.Struct, frozen=True, array_like=True):
    """A process that has the device open for work."""

    pid: int
    memory_bytes: int | None = None
    """On the device."""
    ancestors: tuple[int, ...] = ()
    """Its parent, the parent of that, and so on: what the node has started is among them."""
    holder: str = ""
    """The job's member, task or actor that it belongs to, in words; empty: none of this node's."""


class DeviceSample(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """One device. `number` is the one by which the node hands it out."""

    number: int
    uuid: str = ""
    minor: int | None = None
    """Its file is /dev/nvidiaMINOR; this is not the order in which the driver lists devices."""
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
    """Errors of its memory since its driver was loaded."""
    remap_is_pending: bool = False
    remap_has_failed: bool = False
    """Whether rows of its memory that went bad wait to be replaced, or could not be."""
    recovery: int | None = None
    """What the driver says has to be done to it (see `device_health.RECOVERY`)."""
    xids: tuple[int, ...] = ()
    """The critical errors (Xid) that it has had since the sample before."""
    error: str = ""
    """Why nothing is known of it: it is lost, for one."""
    is_lost: bool = False
    processes: tuple[DeviceProcess, ...] = ()
    process_count: int = 0
