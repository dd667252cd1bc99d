"""What reads devices: their driver, or a file that says what a driver would."""

from __future__ import annotations

from typing import Protocol

from phalanx.observe.devices import DeviceSample


class NoDevicesError(Exception):
    """There is nothing to read here, or it cannot be read; the text says why."""


class DeviceReader(Protocol):
    """Reads the devices of one machine. Any call may hang for as long as the driver does."""

    def read(self) -> list[DeviceSample]:
        """Every device as it is now, with the critical errors since the last time. One that cannot
        be read says so in its sample. Raises NoDevicesError when nothing can be read any more."""
        ...

    def wait(self, seconds: float) -> bool:
        """Wait for a critical error, for so long at most. Whether one came: `read` tells it."""
        ...

    def close(self) -> None:
        """Let go of the driver."""
        ...
