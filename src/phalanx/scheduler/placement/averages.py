"""Exponential averages of run times and bandwidths that nodes report."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Average:
    """An exponential average. Its first value is the first sample. Each further sample moves it by
    the fraction `weight` of the distance to the sample.
    """

    value: float = 0.0
    weight: float = 0.2
    has_sample: bool = False

    def with_sample(self, sample: float) -> Average:
        """Return the average after one more sample.

        Raises ValueError for a negative or infinite sample.
        """
        if not 0 <= sample < float("inf"):
            raise ValueError(f"a sample must be a finite number of 0 or more, not {sample}")
        moved = self.value + self.weight * (sample - self.value)
        return Average(moved if self.has_sample else sample, self.weight, True)
