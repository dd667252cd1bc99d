"""The plugin calendar: keeps reservations free of jobs that may not use them.

For each time at which a reservation begins, the plugin computes the amounts that jobs outside the
reservation will then still hold on each node. A task may go onto a node if it fits there next to
these jobs and all reserved amounts. It must fit at each of these times that comes before its job
reaches its time limit. A job without a time limit overlaps with all reservations. A job that names
a reservation uses only the reserved nodes, and only while the reservation lasts.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Hashable, Mapping
from typing import Any, ClassVar

import numpy as np

from phalanx.model.readable import length_text
from phalanx.scheduler.cycle import jobs as j
from phalanx.scheduler.cycle.accepted import Accepted
from phalanx.scheduler.cycle.amounts import Counts, Flags
from phalanx.scheduler.cycle.arguments import Arguments
from phalanx.scheduler.cycle.calendar import Calendar, Kept, owners
from phalanx.scheduler.cycle.jobs import Job
from phalanx.scheduler.cycle.moments import moment
from phalanx.scheduler.cycle.plan import Rejection
from phalanx.scheduler.cycle.rows import Ask, Change, Filter, Rows, touched
from phalanx.scheduler.cycle.session import Session

_NAMED = 3
"""The largest number of reservations that a reason names."""


class CalendarPlugin:
    """The plugin calendar. It enforces the snapshot's `reservations` and the podgroups'
    `reservation`.
    """

    name = "calendar"
    accepts: ClassVar[Accepted] = {}

    def __init__(self, arguments: Arguments) -> None:
        pass

    def open(self, session: Session) -> None:
        self._session = session
        cluster, now = session.cluster, session.now
        self._calendar = Calendar(cluster, session.snapshot.reservations, now)
        session.add("held_back", self.name, self._held_back)
        kept = self._calendar.kept.values()
        has_guests = any(job.spec.reservation for job in cluster.jobs)
        if not kept and not has_guests:
            return
        begins = {max(w.begin_s, now) for one in kept for w in one.windows if w.end_s > now}
        self._times = sorted(begins)
        """The times, in seconds, at which reservations begin and other work gets less room."""
        self._there: list[list[Kept]] = [
            [one for one in kept if one.window_at(time) is not None] for time in self._times
        ]
        """The reservations in force at each time of `_times`, in the same order."""
        self._left: Counts = np.repeat(cluster.future[None], max(len(self._times), 1), axis=0)
        """The amounts that remain on each node at each time of `_times`, in the same order: neither
        reservations nor work outside reservations then hold them.
        """
        self._of_guests: dict[str, Counts] = {
            name: one.claim.copy() for name, one in self._calendar.kept.items()
        }
        """For each reservation: the reserved amounts that no job inside it holds now."""
        for at, there in enumerate(self._there):
            for one in there:
                self._left[at] -= one.claim
        self._count_running()
        self._whole: dict[tuple[str, int], Flags] = {}
        session.add("changed", self.name, self._changed)
        for reason, passes, detail in (
            ("reserved-time", self._passes, self._why_reserved),
            ("outside-reservation", self._is_inside, self._why_outside),
        ):
            rule = Filter(
                reason=reason,
                passes=passes,
                changes=touched,
                scope="kind",
                kind=self._kind,
                detail=detail,
            )
            session.add("filter", self.name, rule)

    def _count_running(self) -> None:
        """Count running work. Jobs inside a reservation take reserved amounts. For other jobs it
        matters whether they end before a reservation begins.
        """
        cluster = self._session.cluster
        for job in self._session.cluster.jobs:
            if not job.holding_count():
                continue
            kept, ends = self._begun(job), self._calendar.ends(job)
            first = next((at for at, time in enumerate(self._times) if time >= ends), None)
            if kept is None and first is None:
                continue
            for t in job.tasks:
                node = cluster.node_of[t]
                if cluster.status[t] not in j.HOLDING or node < 0:
                    continue
                load = cluster.eq_class[t].request
                if kept is not None and kept.nodes[node]:
                    self._left[:, node] += load
                    self._of_guests[kept.spec.name][node] -= load
                elif first is not None:
                    self._left[first:, node] += load

    def _begun(self, job: Job) -> Kept | None:
        """Return the reservation inside which a job may run now: one that the job names, that is in
        force, and that it may use. None if there is none.
        """
        kept = self._calendar.host(job)
        return kept if kept is not None and kept.window_at(self._session.now) else None

    def _kind(self, job: Job) -> Hashable:
        """Return a value that is equal for jobs that are affected by the same reservations."""
        return job.spec.reservation, self._begun(job) is not None, self._until(job)

    def _until(self, job: Job) -> int:
        """Return how many of `_times` come before the job's end."""
        ends = self._calendar.ends(job)
        kept = self._begun(job)
        if kept is not None:
            window = kept.window_at(self._session.now)
            assert window is not None
            ends = min(ends, window.end_s)
        return bisect_left(self._times, ends)

    # ---- whether a job may start -------------------------------------------------------------

    def _held_back(self, job: Job) -> Rejection | None:
        name = job.spec.reservation
        if not name:
            return None
        kept, now = self._calendar.kept.get(name), self._session.now
        window = None if kept is None else kept.following(now)
        if kept is None or window is None:
            return Rejection(reason="reservation-over", detail={"reservation": name})
        if kept.spec.maintenance:
            return Rejection(reason="reservation-closed", detail={"reservation": name})
        if not kept.admits(job.spec):
            whose = owners(kept.spec.users, kept.spec.queues)
            detail = {"reservation": name, "owners": whose}
            return Rejection(reason="reservation-not-its-own", detail=detail)
        if window.begin_s > now:
            detail = {"reservation": name, "at": moment(window.begin_s)}
            return Rejection(reason="reservation-begins", detail=detail)
        return None

    # ---- nodes -------------------------------------------------------------------------------

    def _passes(self, rows: Rows, ask: Ask) -> Flags:
        """Return a mask of the nodes on which the amounts that are reserved for others stay free if
        the job is placed there.
        """
        until, own = self._until(ask.job), self._begun(ask.job)
        good = ~self._kept_whole(own, until)[rows.index]
        if own is not None or not until:
            return good
        future = self._session.cluster.future
        has_room = np.ones(len(rows), dtype=np.bool_)
        for r in ask.eq_class.asked:
            on_top = future[rows.index, r] - rows.free(r)
            left = self._left[:until, rows.index, r].min(axis=0) - on_top
            has_room &= left >= ask.eq_class.request[r]
        # Where nothing is reserved, a full node may still have room after evictions.
        return good & (has_room | ~self._reserved(until)[rows.index])

    def _is_inside(self, rows: Rows, ask: Ask) -> Flags:
        """Return a mask of the nodes with room inside the reservation that the job names; of all
        nodes if it names none.
        """
        if not ask.job.spec.reservation:
            return np.ones(len(rows), dtype=np.bool_)
        own = self._begun(ask.job)
        if own is None:
            return np.zeros(len(rows), dtype=np.bool_)
        good = own.nodes[rows.index].copy()
        future, left = self._session.cluster.future, self._of_guests[own.spec.name]
        for r in ask.eq_class.asked:
            on_top = future[rows.index, r] - rows.free(r)
            good &= left[rows.index, r] - on_top >= ask.eq_class.request[r]
        return good

    def _kept_whole(self, own: Kept | None, until: int) -> Flags:
        """Return a mask of the nodes that reservations other than `own` keep entirely at one of the
        first `until` times.
        """
        key = (own.spec.name if own is not None else "", until)
        found = self._whole.get(key)
        if found is None:
            found = np.zeros(len(self._session.cluster.nodes), dtype=np.bool_)
            for there in self._there[:until]:
                for one in there:
                    if one is not own:
                        found |= one.whole
            self._whole[key] = found
        return found

    def _reserved(self, until: int) -> Flags:
        """Return a mask of the nodes on which any amount is reserved at one of the first `until`
        times.
        """
        found = np.zeros(len(self._session.cluster.nodes), dtype=np.bool_)
        for there in self._there[:until]:
            for one in there:
                found |= one.nodes
        return found

    def _changed(self, change: Change) -> None:
        own = self._begun(change.job)
        load = change.eq_class.request * change.sign
        until = self._until(change.job)
        for node in change.nodes:
            if own is not None and own.nodes[node]:
                self._of_guests[own.spec.name][node] -= load
            else:
                self._left[:until, node] -= load

    def _why_reserved(self, ask: Ask) -> Mapping[str, Any] | None:
        own, until = self._begun(ask.job), self._until(ask.job)
        if ask.job.spec.reservation and own is None:
            return None
        others = dict.fromkeys(
            one for there in self._there[:until] for one in there if one is not own
        )
        named = [self._calendar.in_words(one) for one in others]
        ends_s = self._calendar.ends(ask.job)
        length = "it has no time limit"
        if not math.isinf(ends_s):
            length = f"it may run for {length_text(math.ceil(ends_s - self._session.now))}"
        more = ", ..." if len(named) > _NAMED else ""
        return {"reserved": ", ".join(named[:_NAMED]) + more, "length": length}

    def _why_outside(self, ask: Ask) -> Mapping[str, Any] | None:
        own = self._begun(ask.job)
        return None if own is None else {"reservation": own.spec.name}
