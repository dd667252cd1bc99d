"""Reservations and licenses at the head: answers to requests, and the consequences of their life
cycle.

The table decides. This module drains nodes, ends jobs when their reservation ends, and answers
requests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from phalanx.errors import JobCommandError
from phalanx.head.clock import Clock
from phalanx.head.gangs.gang import Gang
from phalanx.head.nodes.directory import NodeDirectory
from phalanx.head.queues.control import house_amounts
from phalanx.head.reservations.booking import Book
from phalanx.head.reservations.licenses import LicenseCounts, LicenseRow
from phalanx.head.reservations.record import ReservationRecord, spec_of, window_now
from phalanx.head.reservations.table import ReservationTable
from phalanx.head.state_store import StateStore
from phalanx.manifests.names import object_fault, shown
from phalanx.manifests.reservations import reservation_faults
from phalanx.model.holds import MAINTENANCE, Hold
from phalanx.model.jobs.records import JobRecord
from phalanx.model.jobs.spec import JobSpec
from phalanx.model.nearest import nearest
from phalanx.model.reservations import Reservation
from phalanx.model.rows.reservations import LicenseInfo, ReservationInfo
from phalanx.protocol.requests.request import Asker, Entry
from phalanx.protocol.requests.reservations import (
    DeleteReservation,
    ListLicenses,
    ListReservations,
    Reserve,
    SetLicense,
)
from phalanx.scheduler.cycle.calendar import may_name, owners
from phalanx.scheduler.cycle.specs import LicenseSpec, ReservationSpec, Snapshot

PLACES = frozenset({"nodes", "labels", "node_count", "amounts"})
ENDS = frozenset({"end", "length_s"})
_NAMED = 5
_ID = 12
"""The number of characters of a node's id that are shown."""


class Jobs(Protocol):
    def all_jobs(self) -> list[JobRecord]:
        """Return every known job."""
        ...

    def gang_of(self, uid: str) -> Gang | None:
        """Return the gang of a job, while it has one."""
        ...

    def reservation_changed(self, name: str) -> None:
        """Adjust the time limits of jobs that run in a reservation whose end has changed."""
        ...


class ReservationControl:
    """All reservations and counts of licenses."""

    def __init__(
        self,
        state_store: StateStore,
        clock: Clock,
        nodes: NodeDirectory,
        changed: Callable[[], None],
        snapshot: Callable[[], Snapshot],
    ) -> None:
        """`changed` is called when more jobs may start than before. `snapshot` returns the work
        that is running.
        """
        self._state_store = state_store
        self._clock = clock
        self._nodes = nodes
        self._changed = changed
        self._snapshot = snapshot
        self._have_nodes_changed = False
        self.table = ReservationTable(self)
        self.licenses = LicenseCounts(state_store, changed)
        self.jobs: Jobs | None = None
        """The jobs of the head; None until there are any."""
        self.on_keep: Callable[[str, ReservationRecord | None], None] = lambda name, record: None

    def entries(self) -> list[Entry]:
        """Return the requests that this object answers, each with its handler."""
        return [
            Reserve.handled_by(self._reserve),
            DeleteReservation.handled_by(self._delete),
            ListReservations.handled_by(lambda _, request: self.rows()),
            SetLicense.handled_by(self._set_license),
            ListLicenses.handled_by(lambda _, request: self.license_rows()),
        ]

    # ---- views for cycles ----------------------------------------------------------------------

    def reservations(self, wall: float) -> tuple[ReservationSpec, ...]:
        """Return the reservations that are in force at this wall-clock time or later."""
        return self.table.specs(wall)

    def license_specs(self) -> tuple[LicenseSpec, ...]:
        """Return how many licenses of each kind the cluster has."""
        return self.licenses.specs()

    # ---- changes -------------------------------------------------------------------------------

    def load(self, reservations: list[ReservationRecord], licenses: list[LicenseRow]) -> None:
        """Restore stored reservations and licenses."""
        self.table.restore(reservations)
        self.licenses.load(licenses)
        self._have_nodes_changed = True

    def nodes_changed(self) -> None:
        """Note that a node joined, died, or has different labels."""
        self._have_nodes_changed = True

    def clock_stepped(self, step_s: float) -> None:
        """Shift the recorded times after the clock was stepped by this many seconds."""
        self.table.clock_stepped(step_s)
        if self.jobs is not None:
            for record in self.table.all():
                self.jobs.reservation_changed(record.name)

    def tick(self) -> None:
        """Begin and end reservations that are due, and choose places again if nodes have
        changed.
        """
        now = self._clock.wall()
        if self._have_nodes_changed:
            self._have_nodes_changed = False
            self.table.nodes_changed(lambda name: self._book(name, now), now)
        self.table.tick(now)

    def ends(self, spec: JobSpec) -> float | None:
        """Return the time at which a job that starts now must end because its reservation ends.
        Return None without a reservation, if the reservation has not begun, or if it never ends.
        """
        record = self.table.get(spec.reservation) if spec.reservation else None
        window = None if record is None else window_now(record, self._clock.wall())
        return None if window is None else window[1]

    def check(self, spec: JobSpec) -> None:
        """Raise JobCommandError if the job can never run in its reservation, or requests licenses
        that do not exist.
        """
        self.licenses.check(spec)
        name = spec.reservation
        if not name:
            return
        record = self.table.get(name)
        said = f"job {spec.uid}: reservation={shown(name)}: "
        if record is None:
            known = {one.name: None for one in self.table.all()}
            there = ", ".join(list(known)[:_NAMED]) or "none"
            hint = nearest(name, known)
            raise JobCommandError(f"{said}no reservation has this name{hint}; known: {there}")
        if record.spec.maintenance:
            raise JobCommandError(f"{said}it is for maintenance: no job runs in it")
        if not may_name(spec_of(record, self._clock.wall()), spec.user, spec.queue):
            whose = owners(record.spec.users, record.spec.queues)
            user = f"user {shown(spec.user)}" if spec.user else "no named user"
            raise JobCommandError(
                f"{said}it is for {whose}, but this job belongs to {user}, in queue {spec.queue}"
            )

    def put(self, spec: Reservation) -> str:
        """Create or change the reservation of a manifest. Returns what was done. Raises
        JobCommandError.
        """
        now = self._clock.wall()
        fault = object_fault("Reservation", spec.name)
        faults = [f"{field}: {reason}" for field, reason in reservation_faults(spec)]
        if fault is not None or faults:
            raise JobCommandError(
                f"reservation {shown(spec.name)}: {'; '.join([fault or '', *faults]).strip('; ')}"
            )
        done = self.table.put(spec, self._book(spec.name, now), now)
        if self.jobs is not None:
            self.jobs.reservation_changed(spec.name)
        return done

    def _book(self, name: str, now: float) -> Book:
        """Return a book of the nodes, their running work, and all reservations except the
        reservation with this name.
        """
        others = [spec for spec in self.table.specs(now) if spec.name != name]
        return Book(self._nodes.living(), self._snapshot, others)

    # ---- requests ------------------------------------------------------------------------------

    def _reserve(self, asker: Asker[ReservationInfo], request: Reserve) -> ReservationInfo:
        spec, fields = request.spec, frozenset(request.fields)
        known = self.table.get(spec.name)
        if not fields:
            if known is not None and not (asker.is_again and known.spec == spec):
                raise JobCommandError(
                    f"reservation {spec.name} exists already; change it (--change), or delete it"
                )
            if known is None:
                self.put(spec)
        else:
            spec = _changed(self.table.need(spec.name).spec, spec, fields)
            self.put(spec)
        return self._row(self.table.need(spec.name))

    def _delete(self, asker: Asker[None], request: DeleteReservation) -> None:
        if asker.is_again and self.table.get(request.name) is None:
            return
        record = self.table.need(request.name)
        running, _ = self._of_jobs(record.name)
        if running:
            more = f" and {len(running) - _NAMED} more" if len(running) > _NAMED else ""
            raise JobCommandError(
                f"jobs run in reservation {record.name}: {', '.join(running[:_NAMED])}{more}; "
                "cancel them first, or let them end"
            )
        self.table.delete(record.name)

    def _set_license(self, asker: Asker[LicenseInfo], request: SetLicense) -> LicenseInfo:
        self.licenses.put(request.name, request.total)
        row = next((row for row in self.license_rows() if row.name == request.name), None)
        return row or LicenseInfo(name=request.name, total=0, held=0, holders={}, waiting=0)

    # ---- rows for display ----------------------------------------------------------------------

    def rows(self) -> list[ReservationInfo]:
        """Return the reservations for display."""
        return [self._row(record) for record in self.table.all()]

    def _row(self, record: ReservationRecord) -> ReservationInfo:
        spec = record.spec
        begin, end = spec_of(record, self._clock.wall()).windows[0]
        running, waiting = self._of_jobs(record.name)
        names = self._names()
        return ReservationInfo(
            name=record.name,
            state="planned" if record.begun is None else "active",
            begin=begin if record.begun is None else record.begun,
            end=end,
            schedule=spec.schedule,
            time_zone=spec.time_zone,
            is_maintenance=spec.maintenance,
            users=list(spec.users),
            queues=list(spec.queues),
            nodes={n: house_amounts(tuple(has.items())) for n, has in record.places.items()},
            hosts=[names.get(node, node[:_ID]) for node in record.places],
            running=running,
            waiting=waiting,
            lacks=self._lack(record),
        )

    def _names(self) -> dict[str, str]:
        """Return the host name of each living node. If several nodes share a host name, the
        beginning of the node's id is added.
        """
        nodes = self._nodes.living()
        often = Counter(node.hostname for node in nodes)
        return {
            n.node_id: n.hostname if often[n.hostname] == 1 else f"{n.hostname}/{n.node_id[:_ID]}"
            for n in nodes
        }

    def _lack(self, record: ReservationRecord) -> str:
        spec, places = record.spec, record.places
        if spec.node_count > len(places):
            return f"{spec.node_count - len(places)} of {spec.node_count} nodes"
        for name, amount in spec.amounts:
            has = sum(house_amounts(tuple(x.items())).get(name, 0.0) for x in places.values())
            if has < amount:
                return f"{amount - has:g} of {amount:g} {name}"
        return "" if places else "every node"

    def _of_jobs(self, name: str) -> tuple[list[str], list[str]]:
        """Return the jobs that hold resources of a reservation, and the waiting jobs that name
        it.
        """
        running: list[str] = []
        waiting: list[str] = []
        for job in self.jobs.all_jobs() if self.jobs is not None else ():
            if job.spec.reservation != name or job.is_finished or job.spec.array is not None:
                continue
            short = job.uid.removeprefix("default/")
            (running if self._holds(job) else waiting).append(short)
        return running, waiting

    def _holds(self, job: JobRecord) -> bool:
        gang = self.jobs.gang_of(job.uid) if self.jobs is not None else None
        return gang is not None and gang.holds

    def license_rows(self) -> list[LicenseInfo]:
        """Return the licenses for display."""
        holders: dict[str, dict[str, int]] = {}
        waiting: dict[str, int] = {}
        for job in self.jobs.all_jobs() if self.jobs is not None else ():
            if not job.spec.licenses or job.is_finished or job.spec.array is not None:
                continue
            for name, count in job.spec.licenses:
                if self._holds(job):
                    short = job.uid.removeprefix("default/")
                    holders.setdefault(name, {})[short] = count
                else:
                    waiting[name] = waiting.get(name, 0) + count
        return [
            LicenseInfo(
                name=one.name,
                total=one.total,
                held=sum(holders.get(one.name, {}).values()),
                holders=holders.get(one.name, {}),
                waiting=waiting.get(one.name, 0),
            )
            for one in self.licenses.specs()
        ]

    # ---- effects of the table ------------------------------------------------------------------

    def keep(self, name: str, record: ReservationRecord | None) -> None:
        """Store a new or changed reservation; None deletes the stored one."""
        self._state_store.keep("reservations", name.encode(), record)
        self.on_keep(name, record)

    def changed(self) -> None:
        """Note that other jobs may start than before."""
        self._changed()

    def drain_node(self, node_id: str, reason: str) -> bool:
        """Drain a node for maintenance. Returns False if the node is already draining for
        maintenance, or is not alive.
        """
        if not self._nodes.is_alive(node_id):
            return False
        return self._nodes.hold(node_id, MAINTENANCE, Hold(reason=reason))

    def end_drain(self, node_id: str) -> None:
        """Let a node take work again after maintenance."""
        if self._nodes.is_alive(node_id):
            self._nodes.release(node_id, MAINTENANCE)


def _changed(known: Reservation, given: Reservation, fields: frozenset[str]) -> Reservation:
    """Return the reservation with these fields changed. A field that states the same fact as a
    changed field in another way is cleared.
    """
    there = set(Reservation.__struct_fields__) - {"name"}
    if unknown := sorted(fields - there):
        names = ", ".join(sorted(there))
        raise JobCommandError(f"a reservation has no field {shown(unknown[0])}; it has {names}")
    plain = Reservation(name=known.name)
    new: dict[str, Any] = {}
    if fields & PLACES:
        new |= _fields(plain, PLACES)
    if fields & ENDS:
        new |= _fields(plain, ENDS)
    if "schedule" in fields:
        new |= _fields(plain, frozenset({"start", "end", "latest"}))
    elif "start" in fields:
        new |= _fields(plain, frozenset({"schedule", "time_zone"}))
    return msgspec.structs.replace(known, **(new | _fields(given, fields)))


def _fields(spec: Reservation, names: frozenset[str]) -> dict[str, Any]:
    return {name: getattr(spec, name) for name in sorted(names)}
