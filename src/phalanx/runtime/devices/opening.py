"""The choice of a node's device reader."""

from __future__ import annotations

from phalanx.runtime.devices.reader import DeviceReader


def open_reader(source: str) -> DeviceReader:
    """Return the reader of a node's devices.

    `source` is the path of a file that is read instead of the driver; empty: NVIDIA's driver.
    Raises NoDevicesError.
    """
    if source:
        from phalanx.runtime.devices.recorded import RecordedReader

        return RecordedReader(source)
    from phalanx.runtime.devices.nvml import NvmlReader

    return NvmlReader()
