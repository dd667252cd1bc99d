"""Measures how many CPUs and how much memory of a node's machine are in use.

Each node remembers its own measurements for some time. The head remembers the sums over all nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from phalanx.node.head_link import HeadLink
from phalanx.protocol.report_messages import MachineSeen

LOOK_EVERY_S = 10.0
"""Seconds between two readings."""


class MachineReading(NamedTuple):
    """A reading of a machine's counters."""

    cpu_s: float
    """The CPU seconds that all processes have used since the machine started."""
    memory_bytes: float
    """The bytes of memory in use: all memory except the part that new processes could get without
    swapping.
    """


class MachineUse:
    """Reads the machine's counters from time to time, and reports the use between two readings."""

    def __init__(
        self,
        read: Callable[[], MachineReading | None],
        head: HeadLink,
        keep: Callable[[float, Mapping[str, float]], None],
    ) -> None:
        """`read` returns None if the machine's counters cannot be read. `keep` stores a
        measurement. Its arguments are the time, and the amounts in use by resource; these are empty
        if they are not known.
        """
        self._read = read
        self._head = head
        self._keep = keep
        self._last: MachineReading | None = None
        self._read_at = 0.0
        self._due = 0.0

    def tick(self, now: float) -> None:
        """Read the counters if they are due, and report the use since the last reading."""
        if now < self._due:
            return
        self._due = now + LOOK_EVERY_S
        last, seen = self._last, self._read()
        passed_s = now - self._read_at
        self._last, self._read_at = seen, now
        if last is None or seen is None or passed_s <= 0:
            self._keep(now, {})
            return
        cpus = max(seen.cpu_s - last.cpu_s, 0.0) / passed_s
        self._keep(now, {"CPU": cpus, "memory": seen.memory_bytes})
        if self._head.is_connected:
            self._head.report(MachineSeen(cpus, seen.memory_bytes))
