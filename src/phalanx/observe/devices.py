"""A node's devices at one point in time: the driver's own values, without any judgement.

A value is None if the device lacks it, or if the device's driver does not report it: a part of a
split device (MIG) has no utilization, and a consumer card has no ECC.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

MAX_PROCESSES = 32
"""The largest number of processes of a device that a sample lists; further processes are only
counted.
"""
MAX_ANCESTORS = 16


class DeviceProcess(msgspec.Struct, frozen=True, array_like=True):
    """A process that has the device open for work."""

    pid: int
    memory_bytes: int | None = None
    """Bytes that the process uses on the device."""
    ancestors: tuple[int, ...] = ()
    """The pids of the process's parent, of the parent's parent, and so on. They show whether this
    node started the process.
    """
    holder: str = ""
    """A description of the member, task or actor to which the process belongs; "" if this node did
    not start the process.
    """


class DeviceSample(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """The values of one device at one time. `number` is the number by which the node assigns the
    device.
    """

    number: int
    uuid: str = ""
    minor: int | None = None
    """The number in the name of the device's file, /dev/nvidiaMINOR; the driver lists devices in
    another order.
    """
    model: str = ""
    busy: float | None = None
    """The part of the recent time in which anything ran on the device, from 0 to 1."""
    memory_used: int | None = None
    memory_total: int | None = None
    """Bytes of the device's memory."""
    power_w: float | None = None
    power_limit_w: float | None = None
    temperature_c: float | None = None
    ecc_corrected: int | None = None
    ecc_uncorrected: int | None = None
    """The number of uncorrectable errors of the device's memory since the driver was loaded."""
    remap_is_pending: bool = False
    remap_has_failed: bool = False
    """Whether bad rows of the device's memory wait to be replaced, or could not be replaced."""
    recovery: int | None = None
    """The action that the device needs, as the driver reports it (see `device_health.RECOVERY`)."""
    xids: tuple[int, ...] = ()
    """The critical errors (Xids) since the previous sample."""
    error: str = ""
    """The reason why the device could not be read, for example because it is lost; "" if it was
    read.
    """
    is_lost: bool = False
    processes: tuple[DeviceProcess, ...] = ()
    process_count: int = 0
    profile: str = ""
    """The profile of a part of a split GPU (MIG), such as 1g.10gb; "" for a whole GPU."""


class DeviceShare(msgspec.Struct, frozen=True, array_like=True):
    """One holder that shares a device, with three amounts of the device's memory in bytes; None for
    an unknown amount.

    `memory` is set aside for the holder, its processes use `used`, and it may use at most `limit`.
    """

    holder: str
    mode: str
    """The way in which the device is shared: time or mps."""
    memory: int | None = None
    used: int | None = None
    limit: int | None = None


def cards_of(samples: Sequence[DeviceSample]) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return the memory in bytes and the profile of each device, as two tuples in the order of the
    devices' numbers.

    If the memory of any device is unknown, the first tuple is empty. If no device has a profile,
    the second tuple is empty.
    """
    known = {one.number: one for one in samples}
    numbers = range(max(known, default=-1) + 1)
    memory = tuple(known[n].memory_total or 0 if n in known else 0 for n in numbers)
    profiles = tuple(known[n].profile if n in known else "" for n in numbers)
    return (memory if all(memory) else ()), (profiles if any(profiles) else ())
