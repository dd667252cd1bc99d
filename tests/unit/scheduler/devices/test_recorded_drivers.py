"""Recorded answers of real drivers, compared with the output of nvidia-smi at the same moment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pynvml
import pytest
from tests.unit.scheduler.devices.nvml_recording import RecordedDriver
from tests.unit.scheduler.devices.test_detection import FakeDriver
from tests.unit.scheduler.devices.test_device_readers import NvmlMachine

from phalanx.observe.device_health import OK, WELL, HealthMachine
from phalanx.observe.devices import DeviceProcess
from phalanx.runtime.devices.nvml import NvmlReader
from phalanx.runtime.os.detection import detect_gpus

H100 = json.loads(Path(__file__).with_name("recordings").joinpath("h100.json").read_text())
MIB = 1 << 20


def driver(moment: str, **more: Any) -> RecordedDriver:
    return RecordedDriver({**H100[moment], **more})


# memory.used, memory.total, utilization.gpu, power.draw, enforced.power.limit, temperature.gpu,
# ecc.errors.corrected.volatile.total, ecc.errors.uncorrected.volatile.total
SAID = {
    "idle": (0, 81559, 0, 76.15, 700.0, 49, 0, 0),
    "busy": (2709, 81559, 100, 695.58, 700.0, 76, 0, 0),
}


@pytest.mark.parametrize("moment", SAID)
def test_a_sample_says_what_nvidia_smi_said(moment: str) -> None:
    (one,) = NvmlReader(driver(moment), visible="0").read()
    used, total, busy, watts, limit, heat, corrected, wrong = SAID[moment]
    assert one.memory_used is not None and one.memory_total is not None
    assert (round(one.memory_used / MIB), round(one.memory_total / MIB)) == (used, total)
    assert (one.busy, one.temperature_c) == (busy / 100, heat)
    assert one.power_w == pytest.approx(watts, abs=1)  # nvidia-smi asked a third of a second later
    assert one.power_limit_w == limit
    assert (one.ecc_corrected, one.ecc_uncorrected) == (corrected, wrong)
    assert (one.recovery, one.minor, one.model, one.error) == (0, 0, "H100", "")
    assert HealthMachine().seen(one, 0.0) == WELL


def test_processes_are_those_that_nvidia_smi_named() -> None:
    (one,) = NvmlReader(driver("busy"), visible="0").read()
    assert one.processes == (DeviceProcess(588, 2700 * MIB),)
    assert one.process_count == 1


def test_power_is_as_many_watts_as_the_driver_says() -> None:
    (one,) = NvmlReader(driver("busy"), visible="0").read()
    assert one.power_w == 696.394


def test_what_was_detected() -> None:
    (gpu,), wiring = detect_gpus(driver("idle"), visible=None)
    assert (gpu.number, gpu.model, gpu.product) == (0, "H100", "NVIDIA H100 80GB HBM3")
    assert (gpu.memory_bytes, wiring) == (81559 * MIB, None)


def test_a_program_that_writes_where_it_may_not_makes_an_error_and_the_device_stays() -> None:
    reader = NvmlReader(driver("idle", **H100["events"]), visible="0")
    assert reader.wait(5.0)
    (one,) = reader.read()
    assert one.xids == (31,)
    assert HealthMachine().seen(one, 0.0).state == OK


def test_nothing_came_while_nothing_happened() -> None:
    assert not NvmlReader(driver("idle"), visible="0").wait(0.1)


@pytest.mark.parametrize("made_up", [NvmlMachine, FakeDriver])
def test_drivers_that_are_made_up_have_what_a_real_one_has(made_up: type) -> None:
    for name, value in vars(made_up).items():
        if name.startswith("nvml"):
            real = getattr(pynvml, name)
            assert callable(real) if callable(value) else real == value, name


@pytest.mark.parametrize("moment", SAID)
def test_a_made_up_driver_gives_what_a_real_one_gave(moment: str) -> None:
    """For the same calls the made-up driver gives answers of the same types as the real one."""
    machine = NvmlMachine()
    (sample,) = NvmlReader(driver(moment), visible="0").read()
    for at in range(2):
        told = ("memory_used", "memory_total", "busy", "power_w", "power_limit_w", "minor")
        more = ("temperature_c", "ecc_corrected", "ecc_uncorrected", "recovery", "model")
        machine.set(at, **{name: getattr(sample, name) for name in (*told, *more)})
        machine.set(at, processes=[(one.pid, one.memory_bytes) for one in sample.processes])
    again, _ = machine.reader().read()
    same = (*told, *more, "process_count")
    assert [getattr(again, one) for one in same] == [getattr(sample, one) for one in same]
