"""The kernel's counters of the whole machine: CPU time and memory."""

from __future__ import annotations

import os

from phalanx.node.machine_use import MachineReading

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_IDLE = (3, 4)
"""The indexes of the fields in the first line of /proc/stat (proc_stat(5)) that count times without
a running process: idle, iowait.
"""
_GUEST = 8
"""The index of the first field whose time is included in an earlier field."""


def read_machine() -> MachineReading | None:
    """Return the machine's counters; None if the kernel does not show them."""
    try:
        with open("/proc/stat", "rb") as file:
            ticks = [int(word) for word in file.readline().split()[1:]]
        with open("/proc/meminfo", "rb") as file:
            kib = {name: int(said.split()[0]) for name, _, said in map(_parts, file)}
        busy = sum(count for field, count in enumerate(ticks[:_GUEST]) if field not in _IDLE)
        used_kib = kib[b"MemTotal"] - kib[b"MemAvailable"]
    except (OSError, ValueError, LookupError):
        return None
    return MachineReading(busy * _TICK_S, used_kib * 1024.0)


def _parts(line: bytes) -> tuple[bytes, bytes, bytes]:
    return line.partition(b":")
