"""Stores the promises that are made to waiting gangs, so that the next head keeps them, too."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from phalanx.scheduler.forecast.planner import Planner
from phalanx.scheduler.forecast.promised import Kept, PromiseRow

TABLE = "promises"


class KeptPromises:
    """Writes changes of the planner's promises to the store."""

    def __init__(
        self, planner: Planner, keep: Callable[[str, bytes, PromiseRow | None], None]
    ) -> None:
        self.planner = planner
        self._keep = keep
        self._written: dict[str, tuple[Kept, int]] = {}
        """The stored promises, each with its position in their order."""

    def look(self) -> None:
        """Store the promises that the last cycle made or changed, and delete those that are
        gone.
        """
        promised, before = self.planner.promised, self._written
        for uid in before:
            if uid not in promised:
                self._keep(TABLE, uid.encode(), None)
        self._written = {}
        last = -1
        for uid, kept in promised.items():
            known, place = before.get(uid, (None, -1))
            if known is not kept or place <= last:
                place = place if place > last else last + 1
                self._keep(TABLE, uid.encode(), kept.row(uid, place))
            self._written[uid] = (kept, place)
            last = place

    def clock_stepped(self, step_s: float) -> None:
        """Shift the starts of promises after the clock was stepped by this many seconds, and store
        the promises.
        """
        self.planner.clock_stepped(step_s)
        self.look()

    def drop(self) -> None:
        """Forget all promises. Called when no plugin keeps promises any more."""
        self.planner.restore(())
        self.look()

    def load(self, stored: Iterable[bytes]) -> None:
        """Restore the promises of an earlier head."""
        rows = [msgspec.msgpack.decode(row, type=PromiseRow) for row in stored]
        self.planner.restore(rows)
        promised = self.planner.promised
        self._written = {row.podgroup: (promised[row.podgroup], row.place) for row in rows}
