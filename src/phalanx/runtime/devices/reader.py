"""The interface of readers of devices: their driver, or a file that stands in for a driver."""

from __future__ import annotations

from typing import Protocol

from phalanx.observe.devices import DeviceSample


class NoDevicesError(Exception):
    """Raised if there are no devices, or if they cannot be read. The text gives the reason."""


class DeviceReader(Protocol):
    """Reads the devices of one machine. Any call may hang for as long as the GPU driver hangs."""

    def read(self) -> list[DeviceSample]:
        """Return a sample of every device, with the critical errors since the last call.

        If a device cannot be read, its sample has the reason. Raises NoDevicesError if nothing can
        be read any more.
        """
        ...

    def wait(self, seconds: float) -> bool:
        """Wait for a critical error, at most `seconds`. Returns whether an error came.

        The next `read` contains the error.
        """
        ...

    def close(self) -> None:
        """Release the driver."""
        ...
