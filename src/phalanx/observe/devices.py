"""A node's devices at one moment: the driver's own values, before any judgement.

A value is None where the device does not have it, or its driver does not report it: a part of a
split device (MIG) has no utilization, a consumer card no ECC.
"""

from __future__ import annotations

import msgspec

MAX_PROCESSES = 32
"""The most processes of a device in a sample; further ones are only counted."""
MAX_ANCESTORS = 16


class DeviceProcess(msgspec.Struct, frozen=True, array_like=True):
    """A process that has the device open for work."""

    pid: int
    memory_bytes: int | None = None
    """Bytes that it uses on the device."""
    ancestors: tuple[int, ...] = ()
    """Its parent, the parent's parent, and so on: they show whether this node started it."""
    holder: str = ""
    """The job's member, task or actor that it belongs to, in words; empty: none of this node's."""


class DeviceSample(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """One device. `number` is the number by which the node hands it out."""

    number: int
    uuid: str = ""
    minor: int | None = None
    """The number in its file /dev/nvidiaMINOR; the driver lists devices in another order."""
    model: str = ""
    busy: float | None = None
    """The recent part of time in which anything ran on it, from 0 to 1."""
    memory_used: int | None = None
    memory_total: int | None = None
    """Bytes of its memory."""
    power_w: float | None = None
    power_limit_w: float | None = None
    temperature_c: float | None = None
    ecc_corrected: int | None = None
    ecc_uncorrected: int | None = None
    """Errors of its memory since its driver was loaded."""
    remap_is_pending: bool = False
    remap_has_failed: bool = False
    """Whether bad rows of its memory wait to be replaced, or could not be replaced."""
    recovery: int | None = None
    """The action that the driver says it needs (see `device_health.RECOVERY`)."""
    xids: tuple[int, ...] = ()
    """The critical errors (Xid) since the sample before."""
    error: str = ""
    """Why nothing is known of it, for example because it is lost."""
    is_lost: bool = False
    processes: tuple[DeviceProcess, ...] = ()
    process_count: int = 0
