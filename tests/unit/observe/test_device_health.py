"""The health of a device by what its driver reports: a table, and changes over time."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.observe.device_health import (
    BAD,
    OK,
    SUSPECT,
    SUSPECT_FOR_S,
    WELL_AFTER_S,
    DeviceHealth,
    HealthMachine,
    UnwellDevice,
    unwell_text,
)
from phalanx.observe.devices import DeviceSample


def sample(**fields: Any) -> DeviceSample:
    return DeviceSample(number=0, **fields)


def judged(**fields: Any) -> DeviceHealth:
    return HealthMachine().seen(sample(**fields), 0.0)


@pytest.mark.parametrize(
    ("fields", "state", "action"),
    [
        ({}, OK, ""),
        ({"recovery": 0}, OK, ""),
        ({"recovery": 1}, BAD, "reset"),
        ({"recovery": 2}, BAD, "reboot"),
        ({"recovery": 3}, BAD, "drain peers"),
        ({"recovery": 4}, BAD, "drain and reset"),
        ({"recovery": 5}, BAD, "recover the fabric"),
        ({"recovery": 6}, BAD, "bus reset"),
        ({"recovery": 7}, BAD, "reboot"),
        ({"recovery": 99}, BAD, "reset"),  # one that a later driver adds
        ({"remap_has_failed": True}, BAD, "replace"),
        ({"remap_is_pending": True}, SUSPECT, ""),
        ({"is_lost": True, "error": "GPU is lost"}, BAD, "inspect"),
        ({"error": "Unknown Error"}, SUSPECT, ""),
        ({"ecc_uncorrected": 2}, SUSPECT, ""),
        ({"ecc_corrected": 2}, OK, ""),
        *[({"xids": (xid,)}, OK, "") for xid in (13, 31, 43, 45, 68, 109)],
        *[({"xids": (xid,)}, SUSPECT, "") for xid in (63, 92)],
        *[({"xids": (xid,)}, BAD, "drain and reset") for xid in (46, 48)],
        ({"xids": (64,)}, BAD, "replace"),
        ({"xids": (79,)}, BAD, "reboot"),
        *[({"xids": (xid,)}, BAD, "reset") for xid in (62, 74, 94, 95, 119, 999)],
        ({"xids": (13, 79, 31)}, BAD, "reboot"),
        ({"xids": (79,), "recovery": 1}, BAD, "reset"),  # the driver knows better
    ],
)
def test_one_look(fields: dict[str, Any], state: str, action: str) -> None:
    found = judged(**fields)
    assert (found.state, found.action) == (state, action)
    assert bool(found.reason) == (state != OK)


def test_what_the_driver_says_counts_while_it_says_so() -> None:
    machine = HealthMachine()
    assert machine.seen(sample(recovery=1), 0.0).state == BAD
    assert machine.seen(sample(recovery=0), 5.0).state == OK


def test_a_bad_error_counts_until_the_driver_says_long_enough_that_all_is_well() -> None:
    machine = HealthMachine()
    machine.seen(sample(xids=(79,), recovery=0), 0.0)
    assert machine.seen(sample(recovery=0), WELL_AFTER_S - 1).state == BAD
    assert machine.seen(sample(recovery=0, xids=(74,)), WELL_AFTER_S - 0.5).state == BAD
    assert machine.seen(sample(recovery=0), WELL_AFTER_S).state == BAD
    assert machine.seen(sample(recovery=0), 2 * WELL_AFTER_S).state == OK


def test_a_driver_that_says_nothing_never_heals_it_and_a_person_does() -> None:
    machine = HealthMachine()
    machine.seen(sample(xids=(79,)), 0.0)
    assert machine.seen(sample(), 1e9).state == BAD
    machine.excuse()
    assert machine.health.state == SUSPECT
    assert machine.seen(sample(), 1e9 + 1).state == OK
    assert machine.seen(sample(xids=(79,)), 1e9 + 2).state == BAD


def test_what_was_let_pass_counts_again_once_it_is_something_else() -> None:
    machine = HealthMachine()
    machine.seen(sample(recovery=1), 0.0)
    machine.excuse()
    assert machine.seen(sample(recovery=1), 1.0).state == SUSPECT
    assert machine.seen(sample(recovery=2), 2.0).state == BAD
    assert machine.seen(sample(recovery=1), 3.0).state == BAD


def test_an_error_that_the_device_dealt_with_is_forgotten() -> None:
    machine = HealthMachine()
    machine.seen(sample(xids=(63,)), 0.0)
    assert machine.seen(sample(), SUSPECT_FOR_S - 1).state == SUSPECT
    assert machine.seen(sample(), SUSPECT_FOR_S).state == OK


def test_what_is_said_of_a_nodes_devices() -> None:
    assert unwell_text([]) == ""
    unwell = [
        UnwellDevice(1, DeviceHealth(SUSPECT, "", "it had the error Xid 63")),
        UnwellDevice(3, DeviceHealth(BAD, "reset", "its driver says so")),
        UnwellDevice(4, DeviceHealth(BAD, "reboot", "it had the error Xid 79")),
    ]
    assert unwell_text(unwell) == (
        "2 devices are bad: gpu3 (its driver says so, needs: reset), "
        "gpu4 (it had the error Xid 79, needs: reboot); "
        "1 device is suspect: gpu1 (it had the error Xid 63)"
    )
