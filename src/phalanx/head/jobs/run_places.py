"""The places of runs: their gangs, and the orders to their nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from phalanx.head.accounting.records import AttemptRecords
from phalanx.head.gangs.binder import GangBinder
from phalanx.head.gangs.gang import Gang
from phalanx.head.gangs.gang_registry import GangRegistry
from phalanx.head.gangs.member_states import HELD
from phalanx.head.jobs import events as ev
from phalanx.head.jobs.array_runs import TABLE, Run
from phalanx.head.jobs.starting import Starter
from phalanx.head.outbox import Outbox
from phalanx.head.state_store import StateStore
from phalanx.model.ids import JobId
from phalanx.model.jobs.arrays import split_element
from phalanx.model.jobs.records import JobRecord
from phalanx.model.jobs.spec import JobSpec
from phalanx.protocol.bundle_messages import RunEnd, StopRun


class RunJobs(Protocol):
    """The methods that RunPlaces calls on the object with all jobs (JobGangs)."""

    def take_in(self, event: ev.Event) -> None:
        """Handle an event. The actions that it causes run later."""
        ...

    def after(self, uid: JobId, action: Callable[[], None]) -> None:
        """Run an action on a job after the current one."""
        ...

    def hand_over(self, gang: Gang, job: JobSpec) -> None:
        """Give a gang to another job."""
        ...


class RunPlaces:
    """Carries out the requests of runs (RunEffects)."""

    def __init__(
        self,
        *,
        jobs: RunJobs,
        outbox: Outbox,
        state_store: StateStore,
        registry: GangRegistry,
        reservations: GangBinder,
        starter: Starter,
        records: AttemptRecords,
        takes_work: Callable[[str], bool],
        wall: Callable[[], float],
    ) -> None:
        """`takes_work`: whether new work may start on the node with this id."""
        self.take_in, self.after = jobs.take_in, jobs.after
        self._jobs = jobs
        self._outbox = outbox
        self._state_store = state_store
        self._registry = registry
        self._reservations = reservations
        self._starter = starter
        self._records = records
        self._takes_work = takes_work
        self._wall = wall

    def keep_run(self, run: Run, is_over: bool) -> None:
        """Store a run, or delete it if it is over."""
        self._state_store.keep(TABLE, run.group, None if is_over else run)

    def extend(self, gang: Gang, first: int, tasks: Sequence[JobSpec]) -> None:
        """Order the node of a place to run these tasks."""
        order = self._starter.run(gang, first, tasks)
        self._outbox.order(gang.members[0].node, order)

    def stop(self, gang: Gang) -> None:
        """Order the node of a place to return the tasks that have not started."""
        self._outbox.order(gang.members[0].node, StopRun(gang.gang_id, 0))

    def hand_over(self, gang: Gang, job: JobSpec, number: int) -> None:
        """Give a gang to another job. `number`: the number of the job's first attempt."""
        place = gang.members[0]
        place.attempt, place.ahead = number, number - 1
        self._jobs.hand_over(gang, job)

    def give_up(self, gang: Gang) -> None:
        """Give a place back."""
        self._reservations.end(gang, [0])

    def has_place(self, gang: Gang) -> bool:
        """Whether a gang has its place, on a node that takes new work."""
        place = gang.members[0]
        return place.state == HELD and not gang.is_removed and self._takes_work(place.node)

    def has_no_place(self, uid: JobId) -> bool:
        """Whether a job waits for its place, and no attempt to place it is in progress."""
        gang = self._registry.named.get(uid)
        return gang is not None and not gang.holds

    def is_alone(self, array: JobId) -> bool:
        """Whether all waiting gangs belong to this array."""
        return all(_array_of(gang.job) == array for gang in self._registry.waiting.values())

    def is_free(self, uid: JobId) -> bool:
        """Whether no gang uses the name of this job."""
        return uid not in self._registry.named

    def record(self, gang: Gang, array: JobRecord, ended: list[tuple[int, RunEnd]]) -> None:
        """Write the ended attempts to the history. Each is given with the index of its array
        task.
        """
        self._records.run_ended(gang, array, ended, self._wall())


def _array_of(job: JobId) -> str:
    found = split_element(job)
    return "" if found is None else found[0]
