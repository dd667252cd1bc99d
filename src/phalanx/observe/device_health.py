"""The health of a device, judged by its driver's reports: ok, suspect, or bad with an action.

Each device has a HealthMachine, whose caller passes samples and the time. A bad device gets no new
work.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from phalanx.observe.devices import DeviceSample

OK, SUSPECT, BAD = "ok", "suspect", "bad"

RECOVERY = {
    1: "reset",
    2: "reboot",
    3: "drain peers",
    4: "drain and reset",
    5: "recover the fabric",
    6: "bus reset",
    7: "reboot",
}
"""The action that a device needs, by the number that the driver reports (NVML's recovery action).
The number 0 means that no action is needed.
"""
REBOOT = "reboot"
"""The action for which the node must have no work."""
REPLACE = "replace"
INSPECT = "inspect"

OF_PROGRAMS = frozenset({13, 31, 43, 45, 68, 109})
"""Xids (NVIDIA's numbers of errors) that a program causes, and that do not show whether the device
is healthy.
"""
NOTED = frozenset({63, 92})
"""Xids of errors that the device has corrected itself. A device with many of them is likely to
fail.
"""
XID_ACTIONS = {46: "drain and reset", 48: "drain and reset", 64: REPLACE, 79: REBOOT}
"""The action that a device needs, by Xid, for Xids that are in neither table above. For any other
Xid, a reset is needed.
"""
SUSPECT_FOR_S = 3600.0
"""Seconds for which a device is suspect after an error of NOTED."""
WELL_AFTER_S = 600.0
"""Seconds after which a device with a bad Xid counts as healthy again. Throughout this time, the
driver must report that no action is needed, and no other bad Xid may occur.
"""


class DeviceHealth(msgspec.Struct, frozen=True, array_like=True):
    """The health of a device.

    `action` is what a bad device needs; `reason` is a clause that says why the device is not ok.
    """

    state: str = OK
    action: str = ""
    reason: str = ""


WELL = DeviceHealth()


class UnwellDevice(msgspec.Struct, frozen=True, array_like=True):
    """A device that is not ok, by its number on its node."""

    number: int
    health: DeviceHealth


class HealthMachine:
    """Judges the health of one device over time."""

    def __init__(self) -> None:
        self.health = WELL
        self._xid = 0
        """The last bad Xid that still counts; 0 without such an Xid."""
        self._well_since: float | None = None
        """The time since which the driver has reported that no action is needed, after the last bad
        Xid.
        """
        self._noted_at = float("-inf")
        self._noted_xid = 0
        self._excused: DeviceHealth | None = None
        """The judgement that an administrator has excused. This judgement is ignored until the
        device is judged differently.
        """

    def seen(self, sample: DeviceSample, now: float, suspicion: str = "") -> DeviceHealth:
        """Return the device's health after a new sample. `suspicion`: a clause that says why the
        node suspects the device; "" if the node has no suspicion.
        """
        self._take_xids(sample, now)
        found = self._judge(sample, now)
        if suspicion and found.state == OK:
            found = DeviceHealth(SUSPECT, "", suspicion)
        if found == self._excused:
            self.health = _let_pass(found)
        else:
            self._excused = None
            self.health = found
        return self.health

    def excuse(self) -> None:
        """Declare the device healthy. From now on only new findings count against it."""
        if self.health.state == BAD:
            self._excused = self.health
            self.health = _let_pass(self.health)
        self._xid, self._noted_at = 0, float("-inf")

    def _take_xids(self, sample: DeviceSample, now: float) -> None:
        for xid in sample.xids:
            if xid in NOTED:
                self._noted_at, self._noted_xid = now, xid
            elif xid not in OF_PROGRAMS:
                self._xid, self._well_since = xid, None
        if not self._xid:
            return
        if sample.recovery != 0 or sample.error:
            self._well_since = None
        elif self._well_since is None:
            self._well_since = now
        elif now - self._well_since >= WELL_AFTER_S:
            self._xid = 0

    def _judge(self, sample: DeviceSample, now: float) -> DeviceHealth:
        action = RECOVERY.get(sample.recovery or 0, "reset" if sample.recovery else "")
        if action:
            return DeviceHealth(BAD, action, "its driver says so")
        if sample.remap_has_failed:
            return DeviceHealth(BAD, REPLACE, "rows of its memory that failed cannot be replaced")
        if sample.is_lost:
            return DeviceHealth(BAD, INSPECT, f"it is lost: {sample.error}")
        if self._xid:
            action = XID_ACTIONS.get(self._xid, "reset")
            return DeviceHealth(BAD, action, f"it had the error Xid {self._xid}")
        if sample.error:
            text = f"its driver does not report its health: {sample.error}"
            return DeviceHealth(SUSPECT, "", text)
        if sample.remap_is_pending:
            return DeviceHealth(SUSPECT, "", "rows of its memory are replaced at its next reset")
        if sample.ecc_uncorrected:
            count = sample.ecc_uncorrected
            return DeviceHealth(SUSPECT, "", f"its memory had {count} errors it could not correct")
        if now - self._noted_at < SUSPECT_FOR_S:
            return DeviceHealth(SUSPECT, "", f"it had the error Xid {self._noted_xid}")
        return WELL


def _let_pass(found: DeviceHealth) -> DeviceHealth:
    return DeviceHealth(SUSPECT, "", f"{found.reason}, which was excused")


def unwell_text(unwell: Sequence[UnwellDevice]) -> str:
    """Return a clause that names the devices of a node that are not ok; "" if all are ok."""
    said = []
    for state in (BAD, SUSPECT):
        of_state = [one for one in unwell if one.health.state == state]
        if of_state:
            devices = "1 device is" if len(of_state) == 1 else f"{len(of_state)} devices are"
            said.append(f"{devices} {state}: {', '.join(map(_one_text, of_state))}")
    return "; ".join(said)


def reboot_text(unwell: Sequence[UnwellDevice]) -> str:
    """Return a clause that says why a node must end its work; "" if it need not."""
    named = [f"gpu{one.number}" for one in unwell if one.health.action == REBOOT]
    return f"a reboot is needed for {', '.join(named)}" if named else ""


def _one_text(one: UnwellDevice) -> str:
    action = f", needs: {one.health.action}" if one.health.action else ""
    return f"gpu{one.number} ({one.health.reason}{action})"
