"""How well a device is, judged by what its driver says of it: ok, suspect, or bad with an action.

Pure: a machine for one device, which is handed samples and the time. What is bad leaves the pool.
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
"""The driver's numbers for what has to be done (NVML's recovery action); 0 is nothing."""
REBOOT = "reboot"
"""The action that a whole node has to be empty for."""
REPLACE = "replace"
INSPECT = "inspect"

OF_PROGRAMS = frozenset({13, 31, 43, 45, 68, 109})
"""Xids that a program causes: they say nothing of the device."""
NOTED = frozenset({63, 92})
"""Xids of errors that the device has dealt with itself: the more, the likelier it fails."""
XID_ACTIONS = {46: "drain and reset", 48: "drain and reset", 64: REPLACE, 79: REBOOT}
"""What other Xids call for; all that stand nowhere here call for a reset."""
SUSPECT_FOR_S = 3600.0
"""So long after an error of NOTED a device is suspect."""
WELL_AFTER_S = 600.0
"""A device with a bad Xid is well again when its driver has said so for so long that nothing has to
be done, and there was no other."""


class DeviceHealth(msgspec.Struct, frozen=True, array_like=True):
    """The judgement. `action` says what has to be done to a device that is bad, `reason` in one
    clause why it is not ok."""

    state: str = OK
    action: str = ""
    reason: str = ""


WELL = DeviceHealth()


class UnwellDevice(msgspec.Struct, frozen=True, array_like=True):
    """A device that is not ok, by its number on its node."""

    number: int
    health: DeviceHealth


class HealthMachine:
    """One device's."""

    def __init__(self) -> None:
        self.health = WELL
        self._xid = 0
        """The last bad one that counts; 0: none."""
        self._well_since: float | None = None
        """Since when the driver has said, after that Xid, that nothing has to be done."""
        self._noted_at = float("-inf")
        self._noted_xid = 0
        self._excused: DeviceHealth | None = None
        """What somebody has looked at and let pass, for as long as it stays the same."""

    def seen(self, sample: DeviceSample, now: float) -> DeviceHealth:
        """Judge anew."""
        self._take_xids(sample, now)
        found = self._judge(sample, now)
        if found == self._excused:
            self.health = _let_pass(found)
        else:
            self._excused = None
            self.health = found
        return self.health

    def excuse(self) -> None:
        """Somebody says that it is well: only what comes new counts from now on."""
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
            return DeviceHealth(SUSPECT, "", f"its driver does not tell how it is: {sample.error}")
        if sample.remap_is_pending:
            return DeviceHealth(SUSPECT, "", "rows of its memory are replaced at its next reset")
        if sample.ecc_uncorrected:
            count = sample.ecc_uncorrected
            return DeviceHealth(SUSPECT, "", f"its memory had {count} errors it could not correct")
        if now - self._noted_at < SUSPECT_FOR_S:
            return DeviceHealth(SUSPECT, "", f"it had the error Xid {self._noted_xid}")
        return WELL


def _let_pass(found: DeviceHealth) -> DeviceHealth:
    return DeviceHealth(SUSPECT, "", f"{found.reason}, which was let pass")


def unwell_text(unwell: Sequence[UnwellDevice]) -> str:
    """What is not well with a node's devices, in one clause; empty when all are ok."""
    said = []
    for state in (BAD, SUSPECT):
        of_state = [one for one in unwell if one.health.state == state]
        if of_state:
            devices = "1 device is" if len(of_state) == 1 else f"{len(of_state)} devices are"
            said.append(f"{devices} {state}: {', '.join(map(_one_text, of_state))}")
    return "; ".join(said)


def reboot_text(unwell: Sequence[UnwellDevice]) -> str:
    """Why a node has to be empty; empty while it need not."""
    named = [f"gpu{one.number}" for one in unwell if one.health.action == REBOOT]
    return f"a reboot is needed for {', '.join(named)}" if named else ""


def _one_text(one: UnwellDevice) -> str:
    action = f", needs: {one.health.action}" if one.health.action else ""
    return f"gpu{one.number} ({one.health.reason}{action})"
