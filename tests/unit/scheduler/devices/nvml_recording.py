"""Records the answers of a real NVML driver, and plays them back as a driver.

    python -m tests.unit.scheduler.devices.nvml_recording > answers.json

A recording is JSON. Under each call, `NAME(ARGUMENTS)`, `answers` lists what the call returned each
time it was made; `{"raises": 3}` is an NVMLError of that value. Devices are numbers.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from phalanx.runtime.devices.nvml import NvmlReader
from phalanx.runtime.os.detection import detect_gpus

_HANDLE = "nvmlDeviceGetHandleByIndex"


class RecordingDriver:
    """Passes calls to a real driver, and records the results."""

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml
        self._handles: list[Any] = []
        self.answers: dict[str, list[Any]] = {}

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._nvml, name)
        if not (name.startswith("nvml") and callable(real)):
            return real
        return lambda *args: self._called(name, real, args)

    def _called(self, name: str, real: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        given = [self._plain(one) for one in args]
        noted = self.answers.setdefault(call_text(name, given), [])
        try:
            found = real(*args)
        except self._nvml.NVMLError as error:
            noted.append({"raises": error.value})
            raise
        if name == _HANDLE:
            self._handles.append(found)
        noted.append(self._plain(found))
        return found

    def _plain(self, value: Any) -> Any:
        for at, handle in enumerate(self._handles):
            if value is handle or _address(value) == _address(handle) is not None:
                return {"handle": at}
        if isinstance(value, bytes):
            return value.decode()
        if isinstance(value, (str, int, float)) or value is None:
            return value
        if isinstance(value, (list, tuple)):
            return [self._plain(one) for one in value]
        if isinstance(value, ctypes.Array):
            return [self._plain(one) for one in value]
        if isinstance(value, ctypes._Pointer):
            return "opaque"
        fields = getattr(value, "_fields_", None)
        names = [field[0] for field in fields] if fields else sorted(vars(value))
        return {name: self._plain(getattr(value, name)) for name in names}


def _address(value: Any) -> int | None:
    return ctypes.addressof(value.contents) if isinstance(value, ctypes._Pointer) else None


def call_text(name: str, args: list[Any]) -> str:
    """Return a call as a text, as in recordings."""
    return f"{name}({', '.join(map(_argument, args))})"


def _argument(value: Any) -> str:
    return str(value["handle"]) if isinstance(value, dict) else json.dumps(value)


class RecordedDriver:
    """Gives the recorded answers of each call in turn, and then repeats the last one."""

    class NVMLError(Exception):
        def __init__(self, value: int) -> None:
            super().__init__(f"error {value}")
            self.value = value

    nvmlMemory_v2 = 0x2000028

    def __init__(self, answers: dict[str, list[Any]]) -> None:
        self._answers = {call: list(given) for call, given in answers.items()}

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("nvml"):
            raise AttributeError(name)
        return lambda *args: self._answer(call_text(name, list(args)))

    def _answer(self, call: str) -> Any:
        given = self._answers[call]
        answer = given.pop(0) if len(given) > 1 else given[0]
        if isinstance(answer, dict) and "raises" in answer:
            raise self.NVMLError(answer["raises"])
        return _object(answer)


def _object(value: Any) -> Any:
    if isinstance(value, list):
        return [_object(one) for one in value]
    if isinstance(value, dict):
        if "handle" in value:
            return {"handle": value["handle"]}
        return SimpleNamespace(**{name: _object(one) for name, one in value.items()})
    return value


def main() -> None:
    """Record one detection, one reading, and one wait that returns immediately."""
    driver = RecordingDriver(importlib.import_module("pynvml"))
    detect_gpus(driver)
    reader = NvmlReader(driver)
    reader.read()
    reader.wait(0.1)
    reader.close()
    json.dump({"answers": driver.answers}, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
