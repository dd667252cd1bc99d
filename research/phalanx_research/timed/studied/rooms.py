"""The GPUs of machines, assigned by first fit."""

from __future__ import annotations

from collections.abc import Sequence


class Rooms:
    """The GPUs of all machines, which are free at first."""

    def __init__(self, gpus: Sequence[int]) -> None:
        self._all = gpus
        self._free = list(gpus)
        self._largest = max(gpus)

    def take(self, gpus: int) -> bool:
        """Assign this number of GPUs, or none if too few are free. Returns whether they were
        assigned. The GPUs come from the first machine with enough free GPUs. A request that exceeds
        the largest machine takes the first entirely free machines, and the rest from one more
        machine.
        """
        whole, rest = divmod(gpus, self._largest) if gpus > self._largest else (0, gpus)
        idle = [i for i, n in enumerate(self._free) if n == self._largest][:whole]
        if len(idle) < whole:
            return False
        if rest:
            at = next((i for i, n in enumerate(self._free) if n >= rest and i not in idle), None)
            if at is None:
                return False
            self._free[at] -= rest
        for i in idle:
            self._free[i] = 0
        return True

    def held(self) -> list[int]:
        """Return the number of assigned GPUs of each machine."""
        return [n - free for n, free in zip(self._all, self._free, strict=True)]
