"""Chooses the reader of a node's devices."""

from __future__ import annotations

from phalanx.runtime.devices.reader import DeviceReader


def open_reader(source: str) -> DeviceReader:
    """Return the reader of a node's devices.

    `source`: the path of a file that is read in place of the driver; "" for NVIDIA's driver. Raises
    NoDevicesError.
    """
    if source:
        from phalanx.runtime.devices.recorded import RecordedReader

        return RecordedReader(source)
    from phalanx.runtime.devices.nvml import NvmlReader

    return NvmlReader()
