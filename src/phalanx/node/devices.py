"""What a node knows of its GPUs: samples of them, how well each is, and which are not handed out.

Pure: who reads them is a process beside the node's, since calls of their driver can hang. That
process is begun, heard and ended here.
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
from phalanx.observe.devices import DeviceSample
from phalanx.protocol.cluster_messages import CloseDevices, DevicesSeen
from phalanx.scheduler.devices.instances import NodeResources

LOOK_EVERY_S = 5.0
HANGS_AFTER_S = 30.0
"""A reader that has said nothing for so long hangs."""
AGAIN_AFTER_S = 60.0
"""So long after a reader was begun, or ended as it hung, another is begun where it is gone."""
GPU = "GPU"


class DeviceReading(Protocol):
    """The process that reads the devices, every LOOK_EVERY_S and whenever one has an error."""

    def begin(self) -> bool:
        """Start it; DeviceWatch.seen and DeviceWatch.ended follow. False where there is nothing to
        read, or where the last one cannot be ended."""
        ...

    def end(self) -> None:
        """End it; it may hang for good in its driver."""
        ...


class NoDeviceReading:
    """A node of whose devices nothing is read."""

    def begin(self) -> bool:
        """See DeviceReading."""
        return False

    def end(self) -> None:
        """See DeviceReading."""


class Holders(Protocol):
    """Who has which device."""

    def name(self, sample: DeviceSample) -> DeviceSample:
        """The sample with the holders of its processes."""
        ...

    def of_devices(self) -> dict[int, list[str]]:
        """To whom each device was given, in words."""
        ...


class DeviceWatch:
    """One node's GPUs."""

    def __init__(
        self,
        resources: NodeResources,
        reading: DeviceReading,
        holders: Holders,
        head: HeadLink,
        room_changed: Callable[[float], None],
        clock: Callable[[], float],
        note: Note,
    ) -> None:
        """`room_changed`: more or less can be handed out than before."""
        self._resources = resources
        self._reading = reading
        self._holders = holders
        self._head = head
        self._room_changed = room_changed
        self._clock = clock
        self._note = note
        self._machines: dict[int, HealthMachine] = {}
        self._cordoned: frozenset[int] = frozenset()
        self._is_reading = False
        self._heard_at = float("-inf")
        self._begin_at = float("-inf")
        self._told_at = float("-inf")
        """When the head last heard who holds what of devices that cannot be read."""
        self.samples: dict[int, DeviceSample] = {}
        """Each device as it was read last; none while its reader is in trouble."""
        self.trouble = ""
        """Why nothing is known of the devices now; empty while all is well."""

    def handle_in(self, table: MessageTable) -> None:
        """Take what the head says about devices."""
        table.on(CloseDevices, self.close)

    def use(self) -> dict[int, Device]:
        """What each device does and holds, as far as it was read."""
        found: dict[int, Device] = {}
        for number, one in self.samples.items():
            if one.busy is None or one.memory_used is None or one.memory_total is None:
                continue
            found[number] = (one.busy, float(one.memory_used), float(one.memory_total))
        return found

    @property
    def unwell(self) -> list[UnwellDevice]:
        """The devices that are not ok."""
        return [
            UnwellDevice(number, machine.health)
            for number, machine in sorted(self._machines.items())
            if machine.health.state != OK
        ]

    # ---- what its reader says ----------------------------------------------------------------

    def seen(self, samples: Sequence[DeviceSample], trouble: str = "") -> None:
        """The devices were looked at, or could not be."""
        now = self._clock()
        self._heard_at = now
        self._in_trouble(f"its GPUs cannot be read: {trouble}" if trouble else "")
        if trouble:
            self.samples = {}
            return
        self.samples = {one.number: self._holders.name(one) for one in samples}
        for number, sample in self.samples.items():
            machine = self._machines.setdefault(number, HealthMachine())
            before = machine.health
            self._changed(number, before, machine.seen(sample, now))
            self._note_xids(sample)
        self._hand_out(now)
        self._tell()

    def ended(self, reason: str) -> None:
        """The reader has ended."""
        self._is_reading = False
        self.samples = {}
        self._in_trouble(self.trouble or reason)

    def tick(self, now: float) -> None:
        """Time has passed."""
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
        if self.trouble and now - self._told_at >= LOOK_EVERY_S:
            self._told_at = now
            self._tell()

    def _tell(self) -> None:
        if self._head.is_connected:
            rows = [msgspec.structs.replace(one, xids=()) for one in self.samples.values()]
            self._head.report(DevicesSeen(rows, self._holders.of_devices()))

    def _note_xids(self, sample: DeviceSample) -> None:
        """Those of programs change nothing, and are what their users look for."""
        for xid in sample.xids:
            if xid in OF_PROGRAMS:
                self._note(f"GPU {sample.number}: a program on it made the error Xid {xid}")

    def _in_trouble(self, trouble: str) -> None:
        if trouble != self.trouble:
            self._note(trouble or "its GPUs are read again")
        self.trouble = trouble

    # ---- what is handed out ------------------------------------------------------------------

    def close(self, message: CloseDevices) -> None:
        """The head says which devices are cordoned. It may say so twice."""
        now = self._clock()
        for number in message.excused:
            machine = self._machines.get(number)
            if machine is not None:
                before = machine.health
                machine.excuse()
                self._changed(number, before, machine.health)
        self._cordoned = frozenset(message.cordoned)
        self._hand_out(now)

    def _hand_out(self, now: float) -> None:
        bad = {n for n, machine in self._machines.items() if machine.health.state == BAD}
        if self._resources.close(GPU, self._cordoned | bad):
            self._room_changed(now)

    def _changed(self, number: int, before: DeviceHealth, after: DeviceHealth) -> None:
        if after != before:
            action = f" ({after.action})" if after.action else ""
            why = f": {after.reason}" if after.reason else ""
            self._note(f"GPU {number} is {after.state}{action}{why}")
