"""Reads devices through NVIDIA's management library (NVML)."""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable
from typing import Any, TypeVar

from phalanx.observe.devices import MAX_PROCESSES, DeviceProcess, DeviceSample
from phalanx.runtime.devices.ancestry import ancestors
from phalanx.runtime.devices.reader import NoDevicesError
from phalanx.runtime.os.detection import gpu_model, mig_profile, visible_numbers, visible_parts

T = TypeVar("T")
_LOST = 15
_NOT_SUPPORTED = 3
_TIMED_OUT = 10
_NO_FUNCTION, _OTHER_VERSION = 13, 25
_PER_UNIT = 1000
"""The number of milliwatts in a watt."""
_TEMPERATURE_OF_GPU = 0
_CORRECTED, _UNCORRECTED = 0, 1
_SINCE_LOADED = 0
_XID = 0x8
_WANTED = _XID | 0x2 | 0x4000 | 0x8000
"""The events for which the reader waits.

These are critical errors, memory errors of two bits, devices that disappear, and recovery actions.
"""
_RECOVERY_FIELD = 230


class NvmlReader:
    """Reads devices through NVML, and numbers them as the node does.

    The devices are those that CUDA_VISIBLE_DEVICES lists, in its order.
    """

    def __init__(self, nvml: Any = None, visible: str | None = None) -> None:
        """Begin to use NVML.

        `nvml` is the module pynvml, or an object with the same functions. `visible` replaces
        CUDA_VISIBLE_DEVICES. Raises NoDevicesError.
        """
        self._nvml = nvml = nvml or importlib.import_module("pynvml")
        if visible is None:
            visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        try:
            nvml.nvmlInit()
            count = nvml.nvmlDeviceGetCount()
        except nvml.NVMLError as error:
            raise NoDevicesError(f"NVML: {error}") from None
        parts = visible_parts(nvml, visible)
        self._handles = [handle for _, handle in parts]
        self._uuids = [uuid for uuid, _ in parts]
        if not parts:
            self._find_whole(count, visible)
        self._xids: dict[int, list[int]] = {}
        self._events = self._listen()

    def _find_whole(self, count: int, visible: str | None) -> None:
        """Find the visible GPUs among the machine's `count` GPUs, none of which is split."""
        nvml = self._nvml
        handles = [self._or_none(nvml.nvmlDeviceGetHandleByIndex, at) for at in range(count)]
        uuids = [
            "" if one is None else _text(self._or_none(nvml.nvmlDeviceGetUUID, one) or "")
            for one in handles
        ]
        numbers = visible_numbers(uuids, visible)
        self._handles = [handles[number] for number in numbers]
        self._uuids = [uuids[number] for number in numbers]

    def _listen(self) -> Any:
        nvml = self._nvml
        events = self._or_none(nvml.nvmlEventSetCreate)
        if events is None:
            return None
        for handle in self._handles:
            if handle is None:
                continue
            can = self._or_none(nvml.nvmlDeviceGetSupportedEventTypes, handle)
            if can:
                self._or_none(nvml.nvmlDeviceRegisterEvents, handle, can & _WANTED, events)
        return events

    def read(self) -> list[DeviceSample]:
        """Return a sample of every device."""
        return [self._sample(number, handle) for number, handle in enumerate(self._handles)]

    def wait(self, seconds: float) -> bool:
        """Wait for a critical error, at most `seconds`. Returns whether an error came."""
        nvml = self._nvml
        if self._events is None:
            return _sleep(seconds)
        try:
            event = nvml.nvmlEventSetWait_v2(self._events, int(seconds * 1000))
        except nvml.NVMLError as error:
            # Other errors are reported at once, and again at the next call.
            return False if error.value == _TIMED_OUT else _sleep(seconds)
        uuid = _text(self._or_none(nvml.nvmlDeviceGetUUID, event.device) or "")
        if event.eventType == _XID and uuid in self._uuids:
            number = self._uuids.index(uuid)
            self._xids.setdefault(number, []).append(int(event.eventData))
        return True

    def close(self) -> None:
        """Release the driver."""
        self._or_none(self._nvml.nvmlShutdown)

    def _sample(self, number: int, handle: Any) -> DeviceSample:
        nvml, known = self._nvml, self._or_none
        xids, uuid = tuple(self._xids.pop(number, ())), self._uuids[number]
        try:
            if handle is None:
                raise nvml.NVMLError(_LOST)
            memory = self._memory(handle)
        except nvml.NVMLError as error:
            if error.value != _NOT_SUPPORTED:  # some devices use the machine's memory
                text, is_lost = str(error), error.value == _LOST
                return DeviceSample(
                    number=number, uuid=uuid, xids=xids, error=text, is_lost=is_lost
                )
            memory = None
        use = known(nvml.nvmlDeviceGetUtilizationRates, handle)
        power = known(nvml.nvmlDeviceGetPowerUsage, handle)
        limit = known(nvml.nvmlDeviceGetEnforcedPowerLimit, handle)
        errors = nvml.nvmlDeviceGetTotalEccErrors
        remapped = known(nvml.nvmlDeviceGetRemappedRows, handle) or (0, 0, 0, 0)
        processes = known(nvml.nvmlDeviceGetComputeRunningProcesses, handle) or []
        return DeviceSample(
            number=number,
            uuid=uuid,
            minor=known(nvml.nvmlDeviceGetMinorNumber, handle),
            model=gpu_model(_text(known(nvml.nvmlDeviceGetName, handle) or "")),
            busy=None if use is None else use.gpu / 100,
            memory_used=None if memory is None else int(memory.used),
            memory_total=None if memory is None else int(memory.total),
            power_w=None if power is None else power / _PER_UNIT,
            power_limit_w=None if limit is None else limit / _PER_UNIT,
            temperature_c=known(nvml.nvmlDeviceGetTemperature, handle, _TEMPERATURE_OF_GPU),
            ecc_corrected=known(errors, handle, _CORRECTED, _SINCE_LOADED),
            ecc_uncorrected=known(errors, handle, _UNCORRECTED, _SINCE_LOADED),
            remap_is_pending=bool(remapped[2]),
            remap_has_failed=bool(remapped[3]),
            recovery=self._recovery(handle),
            xids=xids,
            processes=tuple(
                DeviceProcess(one.pid, one.usedGpuMemory, ancestors(one.pid))
                for one in processes[:MAX_PROCESSES]
            ),
            process_count=len(processes),
            profile=mig_profile(_text(known(nvml.nvmlDeviceGetName, handle) or "")),
        )

    def _memory(self, handle: Any) -> Any:
        """Return the device's memory as nvidia-smi counts it. Raises NVMLError.

        The driver's own memory does not count as used. (Drivers before version 510 count it.)
        """
        nvml = self._nvml
        try:
            return nvml.nvmlDeviceGetMemoryInfo(handle, nvml.nvmlMemory_v2)
        except nvml.NVMLError as error:
            if error.value not in (_NO_FUNCTION, _OTHER_VERSION):
                raise
            return nvml.nvmlDeviceGetMemoryInfo(handle)

    def _recovery(self, handle: Any) -> int | None:
        """Return the recovery action of the device; None if the driver is too old to report one."""
        values = self._or_none(self._nvml.nvmlDeviceGetFieldValues, handle, [_RECOVERY_FIELD])
        if values is None or values[0].nvmlReturn != 0:
            return None
        return int(values[0].value.uiVal)

    def _or_none(self, call: Callable[..., T], *args: Any) -> T | None:
        """Return a call's result; None if the device or its driver does not support the call."""
        try:
            return call(*args)
        except self._nvml.NVMLError:
            return None


def _sleep(seconds: float) -> bool:
    time.sleep(seconds)
    return False


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
