"""A program that uses a GPU through CUDA's driver alone, so that it needs no framework.

    python tests/gpu/program.py MIBS [SECONDS_BUSY]

It takes MIBS of memory on the first device that it sees, and prints `ready` and the device's name.
It writes to all of that memory again and again for SECONDS_BUSY, and then waits until it is ended.
"""

from __future__ import annotations

import ctypes
import sys
import time

_NAME = 100


class Cuda:
    """The first device that this process sees. Raises RuntimeError where there is none."""

    def __init__(self) -> None:
        try:
            self._cuda = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise RuntimeError(f"no driver: {error}") from None
        self._call("cuInit", 0)
        self._device = ctypes.c_int()
        self._call("cuDeviceGet", ctypes.byref(self._device), 0)
        self._context = ctypes.c_void_p()
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), self._device)
        self._call("cuCtxSetCurrent", self._context)

    def _call(self, name: str, *args: object) -> None:
        if error := getattr(self._cuda, name)(*args):
            raise RuntimeError(f"{name} gave the error {error}")

    @property
    def name(self) -> str:
        """Return the name of the device."""
        text = ctypes.create_string_buffer(_NAME)
        self._call("cuDeviceGetName", text, _NAME, self._device)
        return text.value.decode()

    @property
    def count(self) -> int:
        """How many devices this process sees."""
        found = ctypes.c_int()
        self._call("cuDeviceGetCount", ctypes.byref(found))
        return found.value

    def take(self, size: int) -> ctypes.c_uint64:
        """Take this many bytes of the device's memory; return their address."""
        place = ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(place), ctypes.c_size_t(size))
        return place

    def write(self, place: ctypes.c_uint64, size: int, seconds: float) -> None:
        """Write to that memory for this many seconds."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for value in range(16):
                self._call("cuMemsetD8_v2", place, ctypes.c_ubyte(value), ctypes.c_size_t(size))
            self._call("cuCtxSynchronize")


def main(mibs: int, seconds: float = 0.0) -> None:
    cuda = Cuda()
    size = mibs << 20
    place = cuda.take(size)
    print("ready", cuda.name, flush=True)
    cuda.write(place, size, seconds)
    print("written", flush=True)
    while True:
        time.sleep(60)


if __name__ == "__main__":
    main(int(sys.argv[1]), *map(float, sys.argv[2:]))
