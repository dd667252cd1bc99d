"""A random generator with a seed, for code whose caller provides none, such as tables of cases."""

from __future__ import annotations

_MASK = (1 << 64) - 1


class Seeded:
    """SplitMix64 (Steele, Lea and Flood, 2014). The same seed gives the same numbers on every
    machine.
    """

    def __init__(self, seed: int) -> None:
        self._state = seed & _MASK

    def randrange(self, stop: int, /) -> int:
        """Return a whole number from 0 to `stop` - 1. Raises ValueError if `stop` is below 1."""
        if stop < 1:
            raise ValueError(f"a range of numbers needs at least one, not {stop}")
        self._state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        mixed = self._state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        return ((mixed ^ (mixed >> 31)) * stop) >> 64
