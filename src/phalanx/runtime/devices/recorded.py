"""Devices from a file. With it, failures of devices can be tried out on a machine without devices.

The file is JSON, `{"devices": [{"number": 0, "busy": 0.5, ...}, ...]}` with the fields of
`DeviceSample`. It is read again each time, so a change of the file changes the devices. Two more
fields simulate trouble: `"hangs": true` makes every call hang, and `"fails": "why"` makes it fail.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import msgspec

from phalanx.observe.devices import MAX_PROCESSES, DeviceProcess, DeviceSample, cards_of
from phalanx.runtime.devices.ancestry import ancestors
from phalanx.runtime.devices.reader import NoDevicesError

_LOOK_EVERY_S = 0.05


def declared_cards(path: str) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return the memory and the profiles of the devices in a file; empty if the file cannot be
    used.
    """
    try:
        data: dict[str, Any] = msgspec.json.decode(Path(path).read_bytes(), type=dict)
        devices = [_sample(at, one) for at, one in enumerate(data.get("devices", ()))]
    except (OSError, NoDevicesError, TypeError, AttributeError, msgspec.MsgspecError):
        return (), ()
    return cards_of(devices)


def check_declared(path: str) -> None:
    """Raise ValueError if a file does not exist or does not describe devices. A file that simulates
    trouble is accepted.
    """
    try:
        data: dict[str, Any] = msgspec.json.decode(Path(path).read_bytes(), type=dict)
        if data.get("hangs") or data.get("fails"):
            return
        for at, one in enumerate(data["devices"]):
            _sample(at, one)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    except NoDevicesError as error:
        raise ValueError(f"{path}: {error}") from None
    except (KeyError, TypeError, AttributeError, msgspec.MsgspecError):
        raise ValueError(
            f'{path} does not describe devices: it must be JSON such as {{"devices": [{{}}]}} '
            "(docs/howto/health.md)"
        ) from None


class RecordedReader:
    """Reads devices from a file. An Xid in the file counts once each time the file is written."""

    def __init__(self, path: str) -> None:
        """Open the file. Raises NoDevicesError."""
        self._path = Path(path)
        self._written = -1
        self._samples()

    def read(self) -> list[DeviceSample]:
        """Return a sample of every device in the file."""
        written = self._when_written()
        samples = self._samples()
        if written == self._written:
            samples = [msgspec.structs.replace(one, xids=()) for one in samples]
        self._written = written
        return samples

    def wait(self, seconds: float) -> bool:
        """Wait for a new version of the file, at most `seconds`. Returns whether one came."""
        end = time.monotonic() + seconds
        while (left_s := end - time.monotonic()) > 0:
            if self._when_written() != self._written:
                return True
            time.sleep(min(_LOOK_EVERY_S, left_s))
        return False

    def close(self) -> None:
        """Do nothing: the file is not kept open."""

    def _when_written(self) -> int:
        try:
            return os.stat(self._path).st_mtime_ns
        except OSError:
            return -1

    def _samples(self) -> list[DeviceSample]:
        try:
            data: dict[str, Any] = msgspec.json.decode(self._path.read_bytes(), type=dict)
            while data.get("hangs"):
                time.sleep(_LOOK_EVERY_S)
                data = msgspec.json.decode(self._path.read_bytes(), type=dict)
            if data.get("fails"):
                raise NoDevicesError(str(data["fails"]))
            return [_sample(at, one) for at, one in enumerate(data["devices"])]
        except OSError as error:
            raise NoDevicesError(f"{self._path}: {error.strerror}") from None
        except (KeyError, TypeError, AttributeError, msgspec.MsgspecError) as error:
            raise NoDevicesError(f"{self._path} does not describe devices: {error}") from None


def _sample(at: int, fields: dict[str, Any]) -> DeviceSample:
    known = set(DeviceSample.__struct_fields__)
    if unknown := sorted(fields.keys() - known):
        raise NoDevicesError(f"device {at} has no {unknown[0]!r}; allowed: {sorted(known)}")
    pids = [(one, None) if isinstance(one, int) else one for one in fields.get("processes", ())]
    given = {
        "number": at,
        **fields,
        "xids": tuple(fields.get("xids", ())),
        "processes": tuple(
            DeviceProcess(pid, memory, ancestors(pid)) for pid, memory in pids[:MAX_PROCESSES]
        ),
        "process_count": len(pids),
    }
    # An array-like struct is written as an array, so named fields are put in their places first.
    return msgspec.convert(msgspec.to_builtins(DeviceSample(**given)), DeviceSample, strict=True)
