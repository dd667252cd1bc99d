"""GPU-hours of a simulated day, by kind of work."""

from __future__ import annotations

from phalanx_research.chaos.kernel import Kernel


class GpuUsage:
    """Adds up the GPU time that programs hold."""

    def __init__(self, kernel: Kernel, total: int) -> None:
        self._kernel = kernel
        self.total = total
        self.seconds: dict[str, float] = {}
        """GPU-seconds of ended programs, by kind of work."""
        self.hours: dict[int, float] = {}
        """GPU-seconds by hour of the day."""
        self._held = 0.0
        self._since = 0.0

    def change(self, kind: str, gpus: float, sign: int) -> None:
        """Record that a program starts (`sign` 1) or ends (-1)."""
        self.settle()
        self._held += sign * gpus
        assert 0 <= self._held <= self.total, f"{self._held} of {self.total} GPUs are in use"
        self.seconds[kind] = self.seconds.get(kind, 0.0) - sign * gpus * self._kernel.now

    def settle(self) -> None:
        """Add up the usage until now."""
        now = self._kernel.now
        while self._since < now:
            hour = int(self._since // 3_600)
            end = min(now, 3_600.0 * (hour + 1))
            self.hours[hour] = self.hours.get(hour, 0.0) + self._held * (end - self._since)
            self._since = end
