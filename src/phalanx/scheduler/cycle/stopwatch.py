"""Measures the time that a cycle and its parts take, by the caller's clock.

A part that calls a hook includes the hook's time, so the times of all parts do not add up to the
cycle's time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from phalanx.scheduler.cycle.plan import Timing
from phalanx.scheduler.cycle.rows import Filter, Scorer

Clock = Callable[[], float]
T = TypeVar("T")


class Stopwatch:
    """Adds up seconds by part and name."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._begun = clock()
        self._spent: dict[tuple[str, str], float] = {}

    def time(self, part: str, name: str, work: Callable[[], T]) -> T:
        return self._timed((part, name), work)()

    def hook(self, hook: str, plugin: str, fn: Any) -> Any:
        """Return a hook that does the same as `fn` and measures its time. `fn` is a function, a
        filter or a scorer.
        """
        key = ("hook", f"{hook} {plugin}")
        if isinstance(fn, Filter):
            beside, detail = fn.passes_beside_leaving, fn.detail
            return replace(
                fn,
                passes=self._timed(key, fn.passes),
                passes_beside_leaving=None if beside is None else self._timed(key, beside),
                detail=None if detail is None else self._timed(key, detail),
            )
        if isinstance(fn, Scorer):
            return replace(fn, score=self._timed(key, fn.score))
        return self._timed(key, fn)

    def timings(self) -> tuple[Timing, ...]:
        """Return the time of the whole cycle so far, then the times of its parts, in the order in
        which they first ran.
        """
        whole = Timing(part="cycle", name="", seconds=self._clock() - self._begun)
        parts = (Timing(part=p, name=n, seconds=s) for (p, n), s in self._spent.items())
        return (whole, *parts)

    def _timed(self, key: tuple[str, str], fn: Callable[..., T]) -> Callable[..., T]:
        clock, spent = self._clock, self._spent
        spent.setdefault(key, 0.0)

        def timed(*args: Any, **named: Any) -> T:
            start = clock()
            try:
                return fn(*args, **named)
            finally:
                spent[key] += clock() - start

        return timed
