"""A value over time in bounded memory. The mean, the maximum, and the value that was not exceeded
in 95 % of the time are computed from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

KEPT = 256
"""The largest number of intervals that are kept. If there are more, neighbouring intervals are
joined.
"""


class Series:
    """Successive intervals of time, each with the mean value in the interval."""

    __slots__ = ("_area", "_length_s", "_pieces", "_step_s", "maximum")

    def __init__(self) -> None:
        self._pieces: list[tuple[float, float]] = []
        self._step_s = 0.0
        """The length of the shortest interval in seconds. A shorter interval is joined with the
        interval before it.
        """
        self._length_s = self._area = 0.0
        self.maximum = 0.0

    def add(self, length_s: float, value: float) -> None:
        """Add an interval of `length_s` seconds with a value. An interval of length 0 is used only
        for the maximum.
        """
        self.maximum = max(self.maximum, value)
        if length_s <= 0:
            return
        self._length_s += length_s
        self._area += length_s * value
        if self._pieces and self._pieces[-1][0] < self._step_s:
            self._pieces[-1] = _joined(self._pieces[-1], (length_s, value))
        else:
            self._pieces.append((length_s, value))
        if len(self._pieces) > KEPT:
            pairs = zip(self._pieces[::2], self._pieces[1::2], strict=False)
            odd = self._pieces[-1:] if len(self._pieces) % 2 else []
            self._pieces = [_joined(*pair) for pair in pairs] + odd
            self._step_s = self._length_s / KEPT

    @property
    def pieces(self) -> Sequence[tuple[float, float]]:
        """The length in seconds and the mean value of each interval, in order."""
        return self._pieces

    @property
    def mean(self) -> float:
        """The mean over the whole time; 0 if no time has passed."""
        return self._area / self._length_s if self._length_s else 0.0

    def p95(self) -> float:
        """Return the least value that was not exceeded in 95 % of the time."""
        return p95(self._pieces)


def _joined(one: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    length_s = one[0] + other[0]
    return length_s, (one[0] * one[1] + other[0] * other[1]) / length_s


def p95(pieces: Iterable[tuple[float, float]]) -> float:
    """Return the least value that was not exceeded in 95 % of the time; 0 without intervals."""
    ordered = sorted(pieces, key=lambda piece: piece[1])
    wanted = 0.95 * sum(length_s for length_s, _ in ordered)
    passed = 0.0
    for length_s, value in ordered:
        passed += length_s
        if passed >= wanted * (1 - 1e-9):
            return value
    return 0.0
