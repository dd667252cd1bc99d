"""The interface that each system of actors implements for the rows about actors."""

from __future__ import annotations

from typing import Protocol


class ActorSystem(Protocol):
    """One actor in another process. Its method has no arguments and returns two bytes."""

    def one_by_one(self, count: int) -> int:
        """Call the method `count` times, each time after the last result. Returns the number of
        results.
        """
        ...

    def together(self, count: int) -> int:
        """Call the method `count` times, and then wait for all results. Returns their number."""
        ...

    def close(self) -> None:
        """End the actor's process."""
        ...
