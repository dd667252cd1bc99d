"""Behaviour that every reader of devices must have: that of NVML, with a made-up driver, and that
of a file.

The values are ones that a driver may give. `test_recorded_drivers.py` has values that real drivers
gave, and `tests/gpu` uses a real driver.
"""

from __future__ import annotations

import json
import os
from collections import deque
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol

import pytest

from phalanx.runtime.devices.ancestry import ancestors
from phalanx.runtime.devices.nvml import NvmlReader
from phalanx.runtime.devices.opening import open_reader
from phalanx.runtime.devices.reader import DeviceReader, NoDevicesError
from phalanx.runtime.devices.recorded import RecordedReader, declared_cards
from phalanx.runtime.os.detection import mig_profile

LOST, NOT_SUPPORTED, TIMED_OUT = 15, 3, 10


class Machine(Protocol):
    """A machine with devices that a test sets, and a reader of them."""

    def set(self, number: int, **fields: Any) -> None: ...

    def reader(self) -> DeviceReader: ...


class RecordedMachine:
    """A machine whose devices are described by a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._devices: list[dict[str, Any]] = [{"uuid": f"GPU-{at}"} for at in range(2)]
        self._count = 0
        self._write()

    def set(self, number: int, **fields: Any) -> None:
        self._devices[number] |= fields
        self._write()
        for device in self._devices:
            device.pop("xids", None)

    def _write(self) -> None:
        self._path.write_text(json.dumps({"devices": self._devices}))
        self._count += 1
        os.utime(self._path, ns=(self._count, self._count))

    def reader(self) -> DeviceReader:
        return RecordedReader(str(self._path))


class NvmlMachine:
    """A driver of two devices. It does not support values that the test has not set."""

    class NVMLError(Exception):
        def __init__(self, value: int) -> None:
            super().__init__("GPU is lost" if value == LOST else f"error {value}")
            self.value = value

    def __init__(self) -> None:
        self.devices: list[dict[str, Any]] = [{"uuid": f"GPU-{at}"} for at in range(2)]
        self.events: deque[tuple[int, int, int]] = deque()

    def set(self, number: int, **fields: Any) -> None:
        xids = fields.pop("xids", ())
        self.events += [(number, 0x8, xid) for xid in xids]
        self.devices[number] |= fields

    def reader(self) -> DeviceReader:
        return NvmlReader(self, visible="0,1")

    def _of(self, at: int, name: str) -> Any:
        if self.devices[at].get("is_lost"):
            raise self.NVMLError(LOST)
        if name not in self.devices[at]:
            raise self.NVMLError(NOT_SUPPORTED)
        return self.devices[at][name]

    # ---- the driver's own names

    def nvmlInit(self) -> None: ...

    def nvmlShutdown(self) -> None: ...

    def nvmlDeviceGetCount(self) -> int:
        return len(self.devices)

    def nvmlDeviceGetHandleByIndex(self, at: int) -> int:
        return at

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> int:
        for at, device in enumerate(self.devices):
            if device["uuid"] == uuid:
                return at
        raise self.NVMLError(6)

    def nvmlDeviceGetUUID(self, at: int) -> str:
        return str(self.devices[at]["uuid"])

    def nvmlDeviceGetName(self, at: int) -> str:
        return f"NVIDIA {self._of(at, 'model')}-SXM"

    def nvmlDeviceGetMinorNumber(self, at: int) -> Any:
        return self._of(at, "minor")

    nvmlMemory_v2 = 0x2000028
    reserved = 3
    """The bytes of each device that the driver reserves for itself. Drivers before version 510
    count them as used.
    """
    is_old = False

    def nvmlDeviceGetMemoryInfo(self, at: int, version: int | None = None) -> SimpleNamespace:
        used, total = self._of(at, "memory_used"), self._of(at, "memory_total")
        if version is None:
            return SimpleNamespace(used=used + self.reserved, total=total)
        assert version == self.nvmlMemory_v2
        if self.is_old:
            raise self.NVMLError(13)
        return SimpleNamespace(used=used, total=total, reserved=self.reserved)

    def nvmlDeviceGetUtilizationRates(self, at: int) -> SimpleNamespace:
        return SimpleNamespace(gpu=int(self._of(at, "busy") * 100))

    def nvmlDeviceGetPowerUsage(self, at: int) -> int:
        return int(self._of(at, "power_w") * 1000)

    def nvmlDeviceGetEnforcedPowerLimit(self, at: int) -> int:
        return int(self._of(at, "power_limit_w") * 1000)

    def nvmlDeviceGetTemperature(self, at: int, sensor: int) -> Any:
        assert sensor == 0
        return self._of(at, "temperature_c")

    def nvmlDeviceGetTotalEccErrors(self, at: int, kind: int, counter: int) -> Any:
        assert counter == 0
        return self._of(at, "ecc_uncorrected" if kind else "ecc_corrected")

    def nvmlDeviceGetRemappedRows(self, at: int) -> tuple[int, int, int, int]:
        device = self.devices[at]
        return 0, 0, device.get("remap_is_pending", 0), device.get("remap_has_failed", 0)

    def nvmlDeviceGetComputeRunningProcesses(self, at: int) -> list[SimpleNamespace]:
        found = self._of(at, "processes")
        return [SimpleNamespace(pid=pid, usedGpuMemory=memory) for pid, memory in found]

    def nvmlDeviceGetFieldValues(self, at: int, fields: list[int]) -> list[SimpleNamespace]:
        assert fields == [230]
        value = SimpleNamespace(uiVal=self.devices[at].get("recovery"))
        return [SimpleNamespace(nvmlReturn=0 if value.uiVal is not None else 3, value=value)]

    def nvmlEventSetCreate(self) -> str:
        return "events"

    def nvmlDeviceGetSupportedEventTypes(self, at: int) -> int:
        return 0x19F

    def nvmlDeviceRegisterEvents(self, at: int, types: int, events: str) -> None:
        assert (types, events) == (0x19F & 0xC00A, "events")

    def nvmlEventSetWait_v2(self, events: str, timeout_ms: int) -> SimpleNamespace:
        if not self.events:
            raise self.NVMLError(TIMED_OUT)
        at, kind, value = self.events.popleft()
        return SimpleNamespace(device=at, eventType=kind, eventData=value)


@pytest.fixture(params=["nvml", "recorded"])
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Machine:
    found: Machine = NvmlMachine()
    if request.param == "recorded":
        found = RecordedMachine(tmp_path / "devices.json")
    for at in range(2):
        found.set(at, memory_used=5, memory_total=9)
    return found


def test_what_a_device_tells(machine: Machine) -> None:
    fields = {
        "minor": 7,
        "model": "H100",
        "busy": 0.5,
        "power_w": 300.0,
        "power_limit_w": 700.0,
        "temperature_c": 60,
        "ecc_corrected": 3,
        "ecc_uncorrected": 1,
        "recovery": 1,
        "remap_is_pending": True,
        "remap_has_failed": True,
    }
    machine.set(0, **fields)
    machine.set(1, busy=0.25)
    first, second = machine.reader().read()
    assert {name: getattr(first, name) for name in fields} == fields
    assert (first.number, first.uuid, first.memory_used, first.memory_total) == (0, "GPU-0", 5, 9)
    assert (second.number, second.uuid, second.busy) == (1, "GPU-1", 0.25)
    assert not (first.error or first.is_lost or first.xids)


def test_an_old_driver_counts_what_it_keeps_as_used() -> None:
    driver = NvmlMachine()
    driver.is_old = True
    driver.set(0, memory_used=5, memory_total=9)
    driver.set(1, memory_used=5, memory_total=9)
    assert [sample.memory_used for sample in driver.reader().read()] == [8, 8]


def test_what_it_does_not_tell_is_none(machine: Machine) -> None:
    sample = machine.reader().read()[0]
    names = ("minor", "busy", "power_w", "temperature_c", "ecc_uncorrected", "recovery")
    assert [getattr(sample, name) for name in names] == [None] * len(names)
    assert (sample.processes, sample.process_count) == ((), 0)


def test_an_error_is_told_once(machine: Machine) -> None:
    reader = machine.reader()
    reader.read()
    assert not reader.wait(0.0)
    machine.set(1, xids=(79,))
    assert reader.wait(60.0)
    assert [sample.xids for sample in reader.read()] == [(), (79,)]
    assert [sample.xids for sample in reader.read()] == [(), ()]
    assert not reader.wait(0.0)


def test_a_lost_device_says_so_and_the_others_go_on(machine: Machine) -> None:
    reader = machine.reader()
    machine.set(0, is_lost=True, error="GPU is lost")
    first, second = reader.read()
    assert (first.is_lost, first.error, first.uuid) == (True, "GPU is lost", "GPU-0")
    assert not second.is_lost


def test_processes_have_their_ancestors(machine: Machine) -> None:
    machine.set(0, processes=[[os.getpid(), 100], [2**30, None]])
    sample = machine.reader().read()[0]
    mine, gone = sample.processes
    assert (mine.pid, mine.memory_bytes, mine.ancestors[:1]) == (os.getpid(), 100, (os.getppid(),))
    assert (gone.pid, gone.memory_bytes, gone.ancestors) == (2**30, None, ())
    assert sample.process_count == 2


def test_many_processes_are_counted(machine: Machine) -> None:
    machine.set(0, processes=[[2**30 + at, 1] for at in range(100)])
    sample = machine.reader().read()[0]
    assert (len(sample.processes), sample.process_count) == (32, 100)


def test_numbers_are_those_of_the_node(machine: Machine) -> None:
    driver = NvmlMachine()
    for at in range(2):
        driver.set(at, memory_used=at, memory_total=9)
    reader = NvmlReader(driver, visible="GPU-1,0")
    assert [(s.number, s.uuid, s.memory_used) for s in reader.read()] == [
        (0, "GPU-1", 1),
        (1, "GPU-0", 0),
    ]


def test_parts_of_split_gpus_are_read_as_the_node_numbers_them() -> None:
    driver = NvmlMachine()
    for at in range(2):
        driver.set(at, uuid=f"MIG-{at}", memory_used=at, memory_total=9)
    reader = NvmlReader(driver, visible="MIG-1,MIG-0,MIG-2")
    assert [(s.number, s.uuid, s.memory_used) for s in reader.read()] == [
        (0, "MIG-1", 1),
        (1, "MIG-0", 0),
    ]


def test_a_file_declares_the_memory_and_the_profiles_of_cards(tmp_path: Path) -> None:
    path = tmp_path / "devices.json"
    part = {"memory_total": 10, "profile": "1g.10gb"}
    path.write_text(json.dumps({"devices": [part, {"memory_total": 40, "profile": "3g.40gb"}]}))
    assert declared_cards(str(path)) == ((10, 40), ("1g.10gb", "3g.40gb"))
    assert RecordedReader(str(path)).read()[0].profile == "1g.10gb"
    path.write_text(json.dumps({"devices": [part, {}]}))
    assert declared_cards(str(path)) == ((), ("1g.10gb", ""))
    path.write_text("{")
    assert declared_cards(str(path)) == ((), ())


def test_the_profile_of_a_part_is_in_its_name() -> None:
    assert mig_profile("NVIDIA H100 80GB HBM3 MIG 1g.10gb") == "1g.10gb"
    assert mig_profile("NVIDIA H100 80GB HBM3") == ""


def test_a_device_that_was_lost_before_is_there_and_lost() -> None:
    driver = NvmlMachine()
    driver.set(0, is_lost=True)
    driver.set(1, memory_used=1, memory_total=9)

    def handle(at: int) -> int:
        driver._of(at, "uuid")
        return at

    driver.nvmlDeviceGetHandleByIndex = handle  # type: ignore[method-assign]
    assert [sample.is_lost for sample in driver.reader().read()] == [True, False]


def test_no_driver_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = NvmlMachine()

    def refuse() -> None:
        raise driver.NVMLError(9)

    monkeypatch.setattr(driver, "nvmlInit", refuse)
    with pytest.raises(NoDevicesError, match="NVML: error 9"):
        driver.reader()


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"devices": 3}', '{"devices": [{"bus": 1}]}', '{"devices": [{"busy": "x"}]}',
     '{"devices": [7]}', '{"fails": "no driver"}'],
)  # fmt: skip
def test_a_file_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "devices.json"
    path.write_text(text)
    with pytest.raises(NoDevicesError):
        open_reader(str(path))
    with pytest.raises(NoDevicesError, match="No such file"):
        open_reader(str(tmp_path / "none.json"))


def test_ancestors_end_before_the_first_process() -> None:
    assert ancestors(os.getpid())[0] == os.getppid()
    assert 1 not in ancestors(os.getpid())
    assert ancestors(0) == ()
