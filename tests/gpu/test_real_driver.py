"""The reader of devices and the detection of GPUs on a real driver, compared with `nvidia-smi`."""

from __future__ import annotations

from typing import Any

import pynvml
import pytest
from tests.polling import eventually
from tests.unit.scheduler.devices.nvml_recording import RecordedDriver, RecordingDriver

from phalanx.observe.device_health import OK, HealthMachine
from phalanx.observe.devices import DeviceSample
from phalanx.runtime.devices.nvml import NvmlReader
from phalanx.runtime.os.detection import detect

MIB = 1 << 20


def first() -> DeviceSample:
    reader = NvmlReader(visible="0")
    try:
        return reader.read()[0]
    finally:
        reader.close()


def test_what_is_detected(said: Any) -> None:
    found = detect()
    name, memory = said("name", "memory.total")
    assert found.gpus[0].product == name
    assert found.gpus[0].memory_bytes == int(memory) * MIB
    wired = 0 if found.topology is None else found.topology.device_count
    assert wired == (len(found.gpus) if len(found.gpus) > 1 else 0)


def test_what_stays_the_same_is_what_nvidia_smi_says(said: Any) -> None:
    sample = first()
    uuid, total, limit, wrong = said(
        "uuid", "memory.total", "enforced.power.limit", "ecc.errors.uncorrected.volatile.total"
    )
    assert sample.uuid == uuid
    assert sample.memory_total == int(total) * MIB
    assert sample.power_limit_w == pytest.approx(float(limit))
    assert str(sample.ecc_uncorrected) == wrong or wrong == "[N/A]"
    assert (sample.error, sample.is_lost, sample.xids) == ("", False, ())
    assert HealthMachine().seen(sample, 0.0).state == OK


def test_memory_in_use_is_what_nvidia_smi_says(said: Any, use: Any) -> None:
    use(1024)
    # Drivers round; another process may come or go between the two looks.
    used = first().memory_used
    assert used is not None
    assert abs(used / MIB - float(said("memory.used")[0])) <= 4
    assert used >= 1024 * MIB


def test_who_writes_to_it_keeps_it_busy_and_is_named(use: Any) -> None:
    process = use(1024, 120.0)
    busy = eventually(lambda: [one for one in (first(),) if (one.busy or 0) > 0.9])[0]
    mine = [one for one in busy.processes if one.pid == process.pid]
    assert mine and (mine[0].memory_bytes or 0) >= 1024 * MIB
    assert busy.power_w and busy.temperature_c and busy.power_w > 50


def test_nothing_happens_while_nothing_is_wrong() -> None:
    reader = NvmlReader(visible="0")
    assert not reader.wait(0.2)
    reader.close()


def test_a_recording_gives_the_sample_that_was_recorded() -> None:
    recording = RecordingDriver(pynvml)
    reader = NvmlReader(recording, visible="0")
    (sample,) = reader.read()
    reader.close()
    (again,) = NvmlReader(RecordedDriver(recording.answers), visible="0").read()
    assert again == sample
