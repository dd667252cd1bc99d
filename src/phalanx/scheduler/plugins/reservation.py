"""The plugin reservation: promises places at a later time to waiting work, and starts no work that
would delay a promise.

The caller of a cycle lends a planner as `shells["planner"]`, because a plan spans several cycles
and covers things that plugins do not know. A plan says which podgroups start now and where, which
are held back until their time, and how much room nodes have left for tasks outside the plan, such
as tasks above a gang's minimum. Resources held by work of unknown length are never promised.
Source: EASY and conservative backfill (Mu'alem and Feitelson, 2001).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Protocol

import numpy as np

from phalanx.scheduler.cycle.accepted import WHOLE, Accepted
from phalanx.scheduler.cycle.amounts import Counts, Flags, Vector
from phalanx.scheduler.cycle.arguments import Arguments, whole
from phalanx.scheduler.cycle.equivalence_class import EquivalenceClass
from phalanx.scheduler.cycle.jobs import Job
from phalanx.scheduler.cycle.plan import Rejection
from phalanx.scheduler.cycle.rows import Ask, Change, Filter, Rows, touched
from phalanx.scheduler.cycle.session import Session

PLANNER = "planner"
"""The name under which the caller lends a planner."""
_NOT_HELD_BACK = -1.0
_NO_ROOM_YET = Rejection(reason="no-room-yet")


class Promises(Protocol):
    """The promises of a planner for one cycle."""

    @property
    def held_back(self) -> Mapping[str, float | None]:
        """The podgroups that must not start now, each with its start time; None if the time is
        unknown.
        """
        ...

    @property
    def places(self) -> Mapping[str, Mapping[int, Counts]]:
        """For each podgroup that starts now: how many tasks of each class each node gets."""
        ...

    def spare(self, length_s: float | None) -> Vector:
        """Return the amounts that each node has left for work of this length that starts now."""
        ...


class LentPlanner(Protocol):
    """Makes the promises for a session. The session's actions must not have moved anything yet."""

    def promises(self, session: Session, promised: int, minimum: int) -> Promises:
        """Make a plan, and return its promises. Places are kept for at most `promised` podgroups of
        each queue. A podgroup that needs fewer tasks than `minimum` gets no promise.
        """
        ...


class Reservation:
    """The plugin reservation. Arguments: `promised` (32), the number of waiting podgroups of each
    queue, from the first on, for which places are kept; `minimum` (1): a gang with fewer tasks gets
    no promise. Podgroups declare `run_time_s`.
    """

    name = "reservation"
    accepts: ClassVar[Accepted] = {"promised": WHOLE, "minimum": WHOLE}

    def __init__(self, arguments: Arguments) -> None:
        self._promised = max(0, whole(arguments, "promised", 32))
        self._minimum = whole(arguments, "minimum", 1)

    def open(self, session: Session) -> None:
        self._session = session
        self._planner: LentPlanner | None = session.shells.get(PLANNER)
        if self._planner is None:
            session.warn(
                "the plugin reservation promises nothing, because this cycle has no planner"
            )
            return
        self._known: Promises | None = None
        self._left: dict[tuple[str, int], Counts] = {}
        self._before: Counts = session.cluster.future
        """The amounts that were free when the plan was made."""
        self._begun: Counts = session.cluster.future
        """The amounts that have been taken since then by podgroups that the plan starts now."""
        session.add("held_back", self.name, self._held_back)
        session.add("changed", self.name, self._changed)
        session.add(
            "filter",
            self.name,
            Filter(reason="reserved", passes=self._passes, changes=touched, scope="job"),
        )

    def _promises(self) -> Promises:
        """Return the promises. They are made on first use, once all plugins are registered."""
        if self._known is None:
            assert self._planner is not None
            known = self._planner.promises(self._session, self._promised, self._minimum)
            self._known = known
            self._before = self._session.cluster.future.copy()
            self._begun = np.zeros_like(self._before)
            self._left = {
                (uid, index): counts.copy()
                for uid, by_class in known.places.items()
                for index, counts in by_class.items()
            }
        return self._known

    def _held_back(self, job: Job) -> Rejection | None:
        known = self._known or self._promises()
        at_s = known.held_back.get(job.uid, _NOT_HELD_BACK)
        if at_s is None:
            return _NO_ROOM_YET
        if at_s == _NOT_HELD_BACK:
            return None
        return Rejection(reason="promised", detail={"in_s": round(at_s - self._session.now)})

    def _changed(self, change: Change) -> None:
        left = self._left.get((change.job.uid, change.eq_class.index))
        if left is None:
            return
        for node in change.nodes:
            if left[node] or change.sign < 0:
                left[node] -= change.sign
                self._begun[node] += change.eq_class.request * change.sign

    def _passes(self, rows: Rows, ask: Ask) -> Flags:
        promises = self._promises()
        left = self._left.get((ask.job.uid, ask.eq_class.index))
        if left is not None and left.any():
            return self._within(rows, ask.eq_class, left[rows.index])
        spare = promises.spare(ask.job.spec.run_time_s)[rows.index]
        taken = self._before[rows.index] - self._begun[rows.index]
        good = np.ones(len(rows), dtype=np.bool_)
        for r in ask.eq_class.asked:
            free = rows.free(r) - taken[:, r] + spare[:, r]
            good &= free >= ask.eq_class.request[r]
        return good

    def _within(self, rows: Rows, eq_class: EquivalenceClass, left: Counts) -> Flags:
        """Return a mask of the rows whose nodes are still to get tasks of the class by the plan.
        `left`: how many such tasks each node is still to get.
        """
        r = eq_class.asked[-1]
        on_top = (self._session.cluster.future[rows.index, r] - rows.free(r)) // eq_class.request[r]
        return np.asarray(on_top < left)
