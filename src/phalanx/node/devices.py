"""The GPUs of a node: their samples, their health, and which GPUs are not handed out.

This module is pure. A separate process reads the GPUs, because calls of their driver can hang. This
module decides when that process starts and ends, and takes its readings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from phalanx.node.dispatch import MessageTable
from phalanx.node.head_link import HeadLink
from phalanx.node.notes import Note
from phalanx.node.usage import Device
from phalanx.observe.device_health import (
    BAD,
    OF_PROGRAMS,
    OK,
    DeviceHealth,
    HealthMachine,
    UnwellDevice,
)
from phalanx.observe.devices import DeviceSample, DeviceShare
from phalanx.protocol.cluster_messages import CloseDevices
from phalanx.protocol.report_messages import DevicesSeen
from phalanx.scheduler.devices.instances import NodeResources

LOOK_EVERY_S = 5.0
"""Seconds between readings of the devices, and between reports while the devices cannot be read."""
HANGS_AFTER_S = 30.0
"""Seconds after which a silent reader counts as hanging."""
AGAIN_AFTER_S = 60.0
"""Seconds until another reader may be started: from the start of the last reader or, if it hung,
from the time when it was ended.
"""
GPU = "GPU"


class DeviceReading(Protocol):
    """The process that reads the devices every LOOK_EVERY_S seconds, and whenever a device has an
    error.
    """

    def begin(self) -> bool:
        """Start the process. `DeviceWatch.seen` and `DeviceWatch.ended` are called later.

        Returns False if the node has no devices to read, or if the last process cannot be ended.
        """
        ...

    def end(self) -> None:
        """End the process. A process that hangs in its driver may never end."""
        ...

    def look(self) -> None:
        """Read the devices soon, without waiting for the next regular reading."""
        ...


class NoDeviceReading:
    """The reader of a node whose devices are not read."""

    def begin(self) -> bool:
        """Return False: there is nothing to read."""
        return False

    def end(self) -> None:
        """Do nothing."""

    def look(self) -> None:
        """Do nothing."""


class Memory(Protocol):
    """Watches the memory of shared devices. `gpu_memory.GpuMemory` implements it."""

    def seen(self, samples: Sequence[DeviceSample], now: float) -> bool:
        """Store a new reading. Returns whether the amounts that can be handed out have changed."""
        ...

    def suspicion(self, number: int, now: float) -> str:
        """Return in one clause why a device is suspect; "" for any other device."""
        ...

    def shares(self) -> dict[int, list[DeviceShare]]:
        """Return the sharers of each shared device."""
        ...

    def tick(self, now: float) -> None:
        """Do the work that is due."""
        ...


class NoMemory:
    """The memory watch of a node on which no memory is watched."""

    def seen(self, samples: Sequence[DeviceSample], now: float) -> bool:
        """Return False: no memory is watched."""
        return False

    def suspicion(self, number: int, now: float) -> str:
        """Return "": no device is suspect here."""
        return ""

    def shares(self) -> dict[int, list[DeviceShare]]:
        """Return no shares."""
        return {}

    def tick(self, now: float) -> None:
        """Do nothing."""


class Holders(Protocol):
    """Knows which work holds which device."""

    def name(self, sample: DeviceSample) -> DeviceSample:
        """Return the sample with the holder of each process filled in."""
        ...

    def of_devices(self) -> dict[int, list[str]]:
        """Return the names of the holders of each device."""
        ...


class DeviceWatch:
    """The GPUs of one node."""

    def __init__(
        self,
        resources: NodeResources,
        reading: DeviceReading,
        *,
        holders: Holders,
        head: HeadLink,
        room_changed: Callable[[float], None],
        clock: Callable[[], float],
        note: Note,
        memory: Memory | None = None,
    ) -> None:
        """`room_changed` is called when the devices that can be handed out have changed."""
        self._resources = resources
        self._reading = reading
        self._holders = holders
        self._head = head
        self._room_changed = room_changed
        self._clock = clock
        self._note = note
        self._memory: Memory = memory or NoMemory()
        self._machines: dict[int, HealthMachine] = {}
        self._cordoned: frozenset[int] = frozenset()
        self._is_reading = False
        self._heard_at = float("-inf")
        self._begin_at = float("-inf")
        self._told_at = float("-inf")
        """The time when the head last got a report while the devices could not be read."""
        self.samples: dict[int, DeviceSample] = {}
        """The latest sample of each device; empty while the devices cannot be read."""
        self.trouble = ""
        """Why nothing is known about the devices now; "" while they are read."""

    def handle_in(self, table: MessageTable) -> None:
        """Register the handler for the head's orders about devices."""
        table.on(CloseDevices, self.close)

    def use(self) -> dict[int, Device]:
        """Return, for each device, how busy it is and its memory, if they were read."""
        found: dict[int, Device] = {}
        for number, one in self.samples.items():
            if one.busy is None or one.memory_used is None or one.memory_total is None:
                continue
            found[number] = (one.busy, float(one.memory_used), float(one.memory_total))
        return found

    @property
    def unwell(self) -> list[UnwellDevice]:
        """The devices whose state is not ok."""
        return [
            UnwellDevice(number, machine.health)
            for number, machine in sorted(self._machines.items())
            if machine.health.state != OK
        ]

    # ---- news of the reader ----------------------------------------------------------------------

    def seen(self, samples: Sequence[DeviceSample], trouble: str = "") -> None:
        """Store new samples, or the reason why there are none."""
        now = self._clock()
        self._heard_at = now
        self._in_trouble(f"its GPUs cannot be read: {trouble}" if trouble else "")
        if trouble:
            self.samples = {}
            return
        self.samples = {one.number: self._holders.name(one) for one in samples}
        has_changed = self._memory.seen(list(self.samples.values()), now)
        for number, sample in self.samples.items():
            machine = self._machines.setdefault(number, HealthMachine())
            before = machine.health
            self._changed(
                number, before, machine.seen(sample, now, self._memory.suspicion(number, now))
            )
            self._note_xids(sample)
        self._hand_out(now, has_changed)
        self._tell()

    def ended(self, reason: str) -> None:
        """Note that the reader has ended."""
        self._is_reading = False
        self.samples = {}
        self._in_trouble(self.trouble or reason)

    def tick(self, now: float) -> None:
        """Start a reader if none runs, and abandon a reader that hangs."""
        if not self._is_reading and now >= self._begin_at:
            self._begin_at = now + AGAIN_AFTER_S
            self._heard_at = now
            self._is_reading = self._reading.begin()
        if self._is_reading and now - self._heard_at >= HANGS_AFTER_S:
            silent_s = now - self._heard_at
            self._is_reading = False
            self._begin_at = now + AGAIN_AFTER_S
            self.samples = {}
            self._in_trouble(f"the driver of its GPUs hangs: no answer for {silent_s:.0f} s")
            self._reading.end()
        self._memory.tick(now)
        if self.trouble and now - self._told_at >= LOOK_EVERY_S:
            self._told_at = now
            self._tell()

    def _tell(self) -> None:
        if self._head.is_connected:
            rows = [msgspec.structs.replace(one, xids=()) for one in self.samples.values()]
            holders, shares = self._holders.of_devices(), self._memory.shares()
            self._head.report(DevicesSeen(rows, holders, shares))

    def _note_xids(self, sample: DeviceSample) -> None:
        """Note errors that programs caused. Such errors do not change the health of a device, but
        users search for them.
        """
        for xid in sample.xids:
            if xid in OF_PROGRAMS:
                self._note(f"GPU {sample.number}: a program on it made the error Xid {xid}")

    def _in_trouble(self, trouble: str) -> None:
        if trouble != self.trouble:
            self._note(trouble or "its GPUs are read again")
        self.trouble = trouble

    # ---- what is handed out ------------------------------------------------------------------

    def close(self, message: CloseDevices) -> None:
        """Close the devices that the head has cordoned. The order may arrive twice."""
        now = self._clock()
        for number in message.excused:
            machine = self._machines.get(number)
            if machine is not None:
                before = machine.health
                machine.excuse()
                self._changed(number, before, machine.health)
        self._cordoned = frozenset(message.cordoned)
        self._hand_out(now)

    def _hand_out(self, now: float, has_changed: bool = False) -> None:
        bad = {n for n, machine in self._machines.items() if machine.health.state == BAD}
        if self._resources.close(GPU, self._cordoned | bad) or has_changed:
            self._room_changed(now)

    def _changed(self, number: int, before: DeviceHealth, after: DeviceHealth) -> None:
        if after != before:
            action = f" ({after.action})" if after.action else ""
            why = f": {after.reason}" if after.reason else ""
            self._note(f"GPU {number} is {after.state}{action}{why}")
