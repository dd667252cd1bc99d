"""An actor of charm4py: a chare in the second of two processes that `charmrun` has started.

All processes of a charm4py program run the same file. `main` lets the first one measure.
"""

from __future__ import annotations

from collections.abc import Callable

from charm4py import Chare, charm


class _Actor(Chare):  # type: ignore[misc]
    def small_value(self) -> bytes:
        return b"ok"


class _Charm:
    def __init__(self) -> None:
        self._actor = Chare(_Actor, onPE=1)
        self.one_by_one(1)

    def one_by_one(self, count: int) -> int:
        for _ in range(count):
            self._actor.small_value(ret=True).get()
        return count

    def together(self, count: int) -> int:
        futures = [self._actor.small_value(ret=True) for _ in range(count)]
        return len([future.get() for future in futures])

    def close(self) -> None:
        """Do nothing: the processes end with the program."""


def make() -> _Charm:
    """Create the actor."""
    return _Charm()


def main(measure: Callable[[], None]) -> None:
    """Call `measure` in the first process, and serve in the second one."""

    def begin(args: object) -> None:
        measure()
        charm.exit()

    charm.start(begin, modules=[__name__])
