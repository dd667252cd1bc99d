"""The interface of readers of devices: their driver, or a file that stands in for a driver."""

from __future__ import annotations

from typing import Protocol

from phalanx.observe.devices import DeviceSample


class NoDevicesError(Exception):
    """Raised when there are no devices, or they cannot be read; the text says why."""


class DeviceReader(Protocol):
    """Reads the devices of one machine. Any call may hang for as long as the driver does."""

    def read(self) -> list[DeviceSample]:
        """Return a sample of every device, with the critical errors since the last call.

        A device that cannot be read has the reason in its sample. Raises NoDevicesError when
        nothing can be read any more.
        """
        ...

    def wait(self, seconds: float) -> bool:
        """Wait for a critical error, at most `seconds`; return whether one came.

        The next `read` contains the error.
        """
        ...

    def close(self) -> None:
        """Release the driver."""
        ...
