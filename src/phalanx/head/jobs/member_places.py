"""Places for the members of jobs: each job's gang, and the orders about its members."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from phalanx.head.gangs.binder import GangBinder
from phalanx.head.gangs.gang import Gang
from phalanx.head.gangs.gang_registry import GangRegistry
from phalanx.head.gangs.member_lifecycle import Wanted
from phalanx.head.gangs.member_states import ABSENT, DONE, HELD, WAITING
from phalanx.head.jobs import events as ev
from phalanx.head.jobs.member_orders import Key, MemberOrders, StepOrder, is_in, key_of
from phalanx.head.jobs.podgroup import gang_of, kind_of, members_of
from phalanx.head.jobs.starting import WantedStep
from phalanx.model.ids import GangId, GroupId, JobId, PlacementGroupID
from phalanx.model.jobs import states as st
from phalanx.model.jobs.records import JobRecord, MemberRecord
from phalanx.model.jobs.spec import JobSpec
from phalanx.model.jobs.timing import WarningSignal
from phalanx.scheduler.devices.ports import RandomSource


class GangNews(Protocol):
    """Receives reports of changes that jobs make to their gangs."""

    def gang_changed(self, gang: Gang) -> None:
        """Note that a gang is new, or that its members or its minimum have changed."""
        ...

    def gang_amended(self, gang: Gang) -> None:
        """Note that a gang's terms may have changed, because its job has changed."""
        ...

    def rename(self, gang: Gang, name: str, job: JobId) -> None:
        """Give a gang the name of another job."""
        ...


class MemberPlaces:
    """The gangs of all jobs that have one, and the places of their members."""

    def __init__(
        self,
        orders: MemberOrders,
        registry: GangRegistry,
        *,
        reservations: GangBinder,
        gang_news: GangNews,
        rng: RandomSource,
        record_of: Callable[[str], JobRecord | None],
        priority_of: Callable[[JobSpec], int],
        later: Callable[[ev.MemberLost], None],
    ) -> None:
        """`later` handles an event after the current action."""
        self._orders = orders
        self._registry = registry
        self._reservations = reservations
        self._gang_news = gang_news
        self._rng = rng
        self._record_of = record_of
        self._priority_of = priority_of
        self._later = later
        self.gangs: dict[str, Gang] = {}
        """The gang of each job, by the job's full name."""
        self.is_restoring = False
        """Whether the head is starting, and stored gangs are being connected with stored jobs."""

    def want(self, job: JobRecord, keys: Iterable[tuple[str, int]]) -> None:
        """Get places for these members."""
        gang = self.gangs.get(job.uid)
        wanted = {k for k in keys if is_in(job, k, st.PENDING)}
        if gang is None:
            if wanted:
                self._new_gang(job, wanted)
            return
        if gang.revision != job.revision:
            self._reservations.end(gang, gang.among(WAITING))  # the queue or priority has changed
            return
        if gang.is_removed:
            return  # these members are asked for again when the gang is over
        known = {(member.of_group, member.index): i for i, member in enumerate(gang.members)}
        new = sorted(wanted - known.keys())
        if new:
            self._grow(job, gang, new)
            known |= {key: len(known) + i for i, key in enumerate(new)}
        chosen = sorted(known[key] for key in wanted)
        if self.is_restoring:  # the stored place of a member is for the attempt that is wanted now
            held = [index for index in chosen if gang.members[index].state == HELD]
            if held:
                self.start(job, [key_of(gang, index) for index in held])
            chosen = [index for index in chosen if gang.members[index].state not in (HELD, WAITING)]
            if not chosen:
                return
        self._reservations.handle(gang, chosen, Wanted())

    def _new_gang(self, job: JobRecord, wanted: set[tuple[str, int]]) -> None:
        length = PlacementGroupID.LENGTH
        gang_id = GangId(GroupId(self._rng.randrange(256**length).to_bytes(length, "big")))
        gang = gang_of(job, gang_id, self._priority_of(job.spec), wanted)
        self.gangs[job.uid] = gang
        self._reservations.add(gang)
        self._gang_news.gang_changed(gang)

    def _grow(self, job: JobRecord, gang: Gang, new: list[tuple[str, int]]) -> None:
        gang.members += members_of(job.spec, new, set())
        keys = [key_of(gang, index) for index in range(len(gang.members))]
        gang.kind = kind_of(job.spec, gang.priority, keys)
        self._registry.members_added(gang)
        self._gang_news.gang_changed(gang)

    def hand_over(self, gang: Gang, job: JobSpec) -> None:
        """Give the gang of an ended job to another array task. If the ended job starts again, it
        gets another place.
        """
        before = self._record_of(gang.job)
        if self.gangs.get(gang.job) is gang:
            del self.gangs[gang.job]
            for member in () if before is None else before.members:
                self._without_place(gang.job, member)
        self._gang_news.rename(gang, job.name, job.uid)
        self.gangs[job.uid] = gang

    def _without_place(self, uid: JobId, member: MemberRecord) -> None:
        group, number, attempt = member.group, member.index, member.attempt
        why = "its place went to another task"
        lost = ev.MemberLost(job=uid, group=group, index=number, attempt=attempt, reason=why)
        if member.state in (st.PENDING, st.RUNNING, st.TERMINATING):
            self._later(lost)

    def start(self, job: JobRecord, keys: Iterable[Key]) -> None:
        """Start the processes of these members, if the job has a gang."""
        gang = self.gangs.get(job.uid)
        if gang is not None:
            self._orders.start(job, gang, keys)

    def step(self, job: JobRecord, group: str, number: int, wanted: WantedStep) -> StepOrder | None:
        """Return the order for one more program of a running member; None if the member is not
        running.
        """
        found = self.place_of(job, group, number)
        return None if found is None else self._orders.step(job, *found, wanted)

    def place_of(self, job: JobRecord, group: str, number: int) -> tuple[Gang, int] | None:
        """Return (gang, index in the gang) of a member that has been started; None for any other
        member.
        """
        gang = self.gangs.get(job.uid)
        index = None if gang is None else gang.index_of(group, number)
        if gang is None or index is None:
            return None
        place, member = gang.members[index], job.member(group, number)
        is_it = member is not None and member.attempt == place.start
        return (gang, index) if place.state == HELD and is_it and place.attempt else None

    def has_begun(self, job: JobRecord) -> bool:
        """Whether members of a job run or were ordered to begin. These members may have ended
        since.
        """
        gang = self.gangs.get(job.uid)
        places = [] if gang is None else [gang.members[index] for index in gang.among(HELD)]
        return bool(job.count(st.RUNNING)) or any(
            place.attempt
            and (member := job.member(place.of_group, place.index)) is not None
            and member.attempt == place.start
            for place in places
        )

    def warn(self, job: JobRecord, signal: WarningSignal) -> None:
        """Send a warning signal to the running members."""
        gang = self.gangs.get(job.uid)
        if gang is not None:
            self._orders.warn(job, gang, signal)

    def end(self, job: JobRecord, ends: Iterable[tuple[str, int, int]]) -> None:
        """End these members, given as (task group, index, attempt). An attempt that was never
        started is reported as lost, because no node will report its end.
        """
        gang = self.gangs.get(job.uid)
        gang = None if gang is None or gang.is_removed else gang
        over = []
        for group, number, attempt in ends:
            index = gang.index_of(group, number) if gang is not None else None
            if gang is not None and index is not None:
                member = gang.members[index]
                if member.state == HELD and member.start == attempt:
                    self._orders.end(gang, index)
                    continue
                if member.state not in (ABSENT, DONE):
                    over.append(index)
            self._later(
                ev.MemberLost(
                    job=job.uid, group=group, index=number, attempt=attempt, reason="not started"
                )
            )
        if gang is not None and over:
            self._reservations.end(gang, over)
