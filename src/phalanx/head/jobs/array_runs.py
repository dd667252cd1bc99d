"""Runs of array tasks. A run is a series of array tasks that a node runs one after another in one
place. The array keeps the place while its tasks are short. A task of a run has no job of its own:
if it succeeds, only the array records the result. If the node reports anything else about the task,
a job is made for it and takes over the place. `docs/decisions/places-that-refill.md` has the
reasons.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, Protocol

import msgspec

from phalanx.head.gangs.gang import Gang
from phalanx.head.jobs import events as ev
from phalanx.head.jobs import judging, run_rules, time_limits
from phalanx.head.jobs.arrays import Arrays, array_task_spec
from phalanx.model.ids import GangId, GroupId, JobId
from phalanx.model.jobs import states as st
from phalanx.model.jobs.records import JobRecord
from phalanx.model.jobs.spec import JobSpec
from phalanx.model.member_logs import for_any_task
from phalanx.protocol.bundle_messages import RunEnd, RunNews

TABLE: Final = "runs"
HELD_S: Final = 5.0
"""Seconds for which an array keeps a place. After that, cycles decide about the place again."""
WAITS_S: Final = 0.1
"""The seconds for which an array task may wait for a place with a job of its own, if runs can take
tasks of its array. After that, the task goes back to the array, and a run may take it.
"""
ENDS: Final = "ends"
COMES_BACK: Final = "comes back"


class Run(msgspec.Struct, kw_only=True, eq=False):
    """The run in one place, as stored."""

    group: GangId
    array: JobId
    next: int
    """The number of the next attempt in this place."""
    tasks: dict[int, int] = {}
    """The indexes of the array tasks that have not ended, in order. The key of each index is the
    number of the task's attempt.
    """
    cancelled: list[int] = []
    """The indexes of the array tasks that must be ended for good."""
    leaves: str = ""
    """The order for the running task: to end for good (ENDS), to end and wait again (COMES_BACK),
    or "" if it keeps running.
    """
    is_stopped: bool = False
    """Whether the node was asked to return the waiting tasks. The run then gets no more tasks."""


class RunEffects(Protocol):
    """Requests that the runs make to their shell."""

    def take_in(self, event: ev.Event) -> None:
        """Handle an event now, and not after the current action."""
        ...

    def after(self, uid: JobId, action: Callable[[], None]) -> None:
        """Run an action on a job after the current one."""
        ...

    def keep_run(self, run: Run, is_over: bool) -> None:
        """Store a run, or delete it if it is over."""
        ...

    def extend(self, gang: Gang, first: int, tasks: Sequence[JobSpec]) -> None:
        """Order the node of a place to run these tasks. The attempt number of the first task is
        `first`. The next tasks have the next numbers.
        """
        ...

    def stop(self, gang: Gang) -> None:
        """Order the node of a place to return the tasks that have not started."""
        ...

    def hand_over(self, gang: Gang, job: JobSpec, number: int) -> None:
        """Give a gang to another job, whose first attempt has this number."""
        ...

    def give_up(self, gang: Gang) -> None:
        """Give a place back."""
        ...

    def has_place(self, gang: Gang) -> bool:
        """Whether a gang has its place, on a node that takes new work."""
        ...

    def has_no_place(self, uid: JobId) -> bool:
        """Whether a job waits for its place, and no attempt to place it is in progress."""
        ...

    def is_alone(self, array: JobId) -> bool:
        """Whether all waiting gangs belong to this array."""
        ...

    def is_free(self, uid: JobId) -> bool:
        """Whether no gang uses the name of this job."""
        ...

    def record(self, gang: Gang, array: JobRecord, ended: list[tuple[int, RunEnd]]) -> None:
        """Write the ended attempts to the history. Each is given with the index of its array
        task.
        """
        ...


class ArrayRuns:
    """The runs of all places, by the group of their gang."""

    def __init__(
        self,
        effects: RunEffects,
        arrays: Arrays,
        job_of: Callable[[JobId], JobRecord | None],
        now: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        """`now` returns the time of a steady clock, and `wall` the wall-clock time, in seconds."""
        self._effects = effects
        self._arrays = arrays
        self._job_of = job_of
        self._now = now
        self._wall = wall
        self._runs: dict[GangId, Run] = {}
        self._gangs: dict[GangId, Gang] = {}
        self._of_arrays: dict[JobId, dict[GangId, None]] = {}
        self._since: dict[GangId, float] = {}
        """For each place: the time when a cycle last assigned it."""
        self._lengths = run_rules.Lengths()
        self._counted: set[GangId] = set()
        """The places with a run for which the array counts one task as running."""

    # ---- granting ----------------------------------------------------------------------------

    def begun(self, gang: Gang, job: JobRecord) -> None:
        """Note that the job of an array task starts in its place now. If the tasks of its array are
        short, the place also gets a run: more tasks for the time after this one.
        """
        array = self._array_of(job)
        if array is None:
            return
        self._since[gang.gang_id] = self._now()
        if gang.gang_id in self._runs:
            self._runs[gang.gang_id].is_stopped = False
        self._arrays.placed(array)
        self._extend(gang, array)

    def goes_on(self, gang: Gang, job: JobRecord, ran_s: float) -> bool:
        """Whether the array keeps the place of a task that will now be recorded as succeeded. If
        the place has no more tasks, it may get some first. `ran_s`: the run time of the task.
        """
        array = self._array_of(job)
        if array is None:
            return False
        self._lengths.ended(array.uid, ran_s)
        run = self._runs.get(gang.gang_id)
        if run is None or not run.tasks:
            self._refill(gang, array)
            run = self._runs.get(gang.gang_id)
        return run is not None and bool(run.tasks)

    def _array_of(self, job: JobRecord) -> JobRecord | None:
        if job.spec.element is None:
            return None
        return self._job_of(job.spec.element.array)

    def _refill(self, gang: Gang, array: JobRecord) -> None:
        """Grant more tasks to the place, unless cycles must decide about the place."""
        is_due = self._now() >= self._since.get(gang.gang_id, 0.0) + HELD_S
        if not is_due and self._effects.is_alone(array.uid):
            self._extend(gang, array)

    def _extend(self, gang: Gang, array: JobRecord) -> None:
        run, now = self._runs.get(gang.gang_id), self._wall()
        if run is not None and (run.is_stopped or run.array != array.uid):
            return
        if array.state != st.RUNNING or time_limits.is_held_back(array, now):
            return
        if not run_rules.is_plain(array.spec) or not self._effects.has_place(gang):
            return
        places = len(self._of_arrays.get(array.uid, ())) + (run is None)
        most = self._lengths.most(array.uid, self._arrays.waiting(array), places)
        there = 0 if run is None else len(run.tasks)
        if there > most // 2:
            return
        indices = self._arrays.grant(array, most - there, self._effects.is_free)
        if most and not indices:
            self._arrays.thin_out(array, now - WAITS_S, self._effects.has_no_place)
        if not indices:
            return
        if run is None:
            run = self._add(gang, Run(group=gang.gang_id, array=array.uid, next=_next(gang)))
        first = run.next
        for number, index in enumerate(indices, first):
            run.tasks[number] = index
        run.next = first + len(indices)
        self._count(gang, array)
        self._effects.keep_run(run, is_over=False)
        tasks = [array_task_spec(array, index, now) for index in indices]
        self._effects.extend(gang, first, tasks)

    def _add(self, gang: Gang, run: Run) -> Run:
        self._runs[gang.gang_id], self._gangs[gang.gang_id] = run, gang
        self._of_arrays.setdefault(run.array, {})[gang.gang_id] = None
        self._arrays.narrow_window(run.array)
        return run

    # ---- news of nodes -----------------------------------------------------------------------

    def news(self, message: RunNews, node_id: str) -> None:
        """Handle a node's report about a run: record the tasks that have ended, and take back the
        tasks that the node returned.
        """
        run, gang = self._runs.get(message.group), self._gangs.get(message.group)
        array = None if run is None else self._job_of(run.array)
        if run is None or gang is None or array is None:
            return
        ended = [(run.tasks[e.attempt], e) for e in message.ended if e.attempt in run.tasks]
        known = len(run.tasks)
        self._uncount(gang, array)
        if ended:
            for _, one in ended:
                del run.tasks[one.attempt]
                self._lengths.ended(array.uid, one.used.ran_s)
            self._effects.record(gang, array, ended)
            member = f"{gang.members[0].of_group}-{gang.members[0].index}"
            log = (node_id, for_any_task(message.log, ended[0][0])) if message.log else None
            self._arrays.run_ended(array, [index for index, _ in ended], member, log)
        if message.returned is not None:
            first, last = message.returned
            numbers = [number for number in run.tasks if first <= number <= last]
            self._take_back(run, array, numbers)
        self._count(gang, array)
        if len(run.tasks) != known:
            self._effects.keep_run(run, is_over=False)
            self._effects.take_in(ev.ArrayTasksChanged(job=array.uid))
        self._arrays.thin_out(array, self._wall() - WAITS_S, self._effects.has_no_place)
        if self._job_of(gang.job) is not None:
            return  # the task's end decides what follows
        if message.returned is None:
            self._refill(gang, array)
        if not run.tasks:
            self._effects.give_up(gang)

    def shown(self, gang: Gang, number: int) -> None:
        """Make a job for a task of a run, because its node has reported something other than
        success, and give the job the place.
        """
        run = self._runs.get(gang.gang_id)
        array = None if run is None else self._job_of(run.array)
        if run is None or array is None or number not in run.tasks:
            return
        self._uncount(gang, array)
        index = run.tasks.pop(number)
        spec = array_task_spec(array, index, self._wall())
        self._arrays.mark_live(array, index, spec.uid)
        self._effects.hand_over(gang, spec, number)
        self._effects.take_in(ev.Submitted(spec=spec))
        self._count(gang, array)
        self._effects.keep_run(run, is_over=False)
        self._effects.take_in(ev.ArrayTasksChanged(job=array.uid))
        self._end_as_asked(run, index, spec.uid)

    def _end_as_asked(self, run: Run, index: int, uid: JobId) -> None:
        if index in run.cancelled or run.leaves == ENDS:
            self._effects.after(uid, lambda: self._terminate(uid))
        elif run.leaves == COMES_BACK:
            self._effects.after(uid, lambda: self._withdraw(uid))

    def _terminate(self, uid: JobId) -> None:
        job = self._job_of(uid)
        if job is not None and st.TERMINATE_JOB in judging.ALLOWED[job.state]:
            self._effects.take_in(ev.Commanded(job=uid, action=st.TERMINATE_JOB))

    def _withdraw(self, uid: JobId) -> None:
        if self._job_of(uid) is not None:
            self._effects.take_in(ev.Deleted(job=uid))

    def _take_back(self, run: Run, array: JobRecord, numbers: Iterable[int]) -> None:
        indices = [run.tasks.pop(number) for number in numbers]
        gone = [index for index in indices if index in run.cancelled]
        self._arrays.run_returned(array, [i for i in indices if i not in gone], gone)

    def looked_at(self, gang: Gang) -> None:
        """Note that the job in a place has ended. From now on only the run needs the place."""
        run = self._runs.get(gang.gang_id)
        array = None if run is None else self._job_of(run.array)
        if run is not None and array is not None:
            self._count(gang, array)

    def lost(self, gang: Gang, is_held_against: bool) -> None:
        """Take back the tasks of a run whose place was lost. If these tasks may have caused the
        death of their node, the array gets no more runs, because deaths of nodes are counted only
        against tasks that have jobs. `is_held_against`: whether the tasks may have caused the
        death.
        """
        run = self._runs.get(gang.gang_id)
        array = None if run is None else self._job_of(run.array)
        if run is None or array is None:
            return
        if is_held_against:
            self._lengths.forbid(array.uid)
        if run.tasks:
            self._uncount(gang, array)
            self._take_back(run, array, list(run.tasks))
            self._effects.keep_run(run, is_over=False)
            self._changed(array)

    def _changed(self, array: JobRecord) -> None:
        changed = ev.ArrayTasksChanged(job=array.uid)
        self._effects.after(array.uid, lambda: self._effects.take_in(changed))

    # ---- numbers and ends --------------------------------------------------------------------

    def number(self, gang: Gang, attempt: int) -> int:
        """Return the number under which the node knows this attempt of the job in the place.

        A new attempt gets a new number. The place's run then loses all its waiting tasks, which
        go back to their array: the node does not start them before the new attempt (see
        ExtendRun).
        """
        place, run = gang.members[0], self._runs.get(gang.gang_id)
        number = attempt + place.ahead
        if run is None or number == place.attempt:
            return number
        number, run.next = run.next, run.next + 1
        place.ahead = number - attempt
        array = self._job_of(run.array)
        if run.tasks and array is not None:
            self._uncount(gang, array)
            self._take_back(run, array, list(run.tasks))
            self._changed(array)
        self._effects.keep_run(run, is_over=False)
        return number

    @property
    def groups(self) -> Collection[GangId]:
        """The groups of the gangs that have runs."""
        return self._runs.keys()

    def keeps(self, gang: Gang) -> bool:
        """Whether a run keeps the place of a gang."""
        run = self._runs.get(gang.gang_id)
        return run is not None and bool(run.tasks)

    def over(self, gang: Gang) -> None:
        """Forget the run of a place that is gone."""
        self._since.pop(gang.gang_id, None)
        run = self._runs.pop(gang.gang_id, None)
        if run is None:
            return
        self._gangs.pop(gang.gang_id)
        array = self._job_of(run.array)
        if array is not None:
            self._uncount(gang, array)
            self._take_back(run, array, list(run.tasks))
            self._changed(array)
        self._counted.discard(gang.gang_id)
        others = self._of_arrays[run.array]
        del others[gang.gang_id]
        if not others:
            del self._of_arrays[run.array]
            self._arrays.reset_window(run.array)
        self._effects.keep_run(run, is_over=True)

    def forget(self, array: JobId) -> None:
        """Forget the run times of an array's tasks, when the array is gone."""
        self._lengths.forget(array)

    # ---- commands ----------------------------------------------------------------------------

    def stop(self, array: JobRecord, leaves: str = "") -> None:
        """Take back from an array's runs the tasks that have not started. `leaves`: the order for
        the running tasks (see `Run.leaves`).
        """
        for group in list(self._of_arrays.get(array.uid, ())):
            self._stop(self._runs[group], leaves)

    def cancel(self, array: JobRecord, indices: Iterable[int]) -> int:
        """End these tasks of an array for good if they are in runs. Returns how many of them were
        in runs.
        """
        wanted, count = set(indices), 0
        for group in list(self._of_arrays.get(array.uid, ())):
            run = self._runs[group]
            found = [i for i in run.tasks.values() if i in wanted and i not in run.cancelled]
            if found:
                run.cancelled += found
                count += len(found)
                self._stop(run, run.leaves)
        return count

    def _stop(self, run: Run, leaves: str) -> None:
        if not run.tasks:
            return
        run.is_stopped, run.leaves = True, leaves
        self._effects.keep_run(run, is_over=False)
        self._effects.stop(self._gangs[run.group])

    # ---- counting ----------------------------------------------------------------------------

    def _count(self, gang: Gang, array: JobRecord) -> None:
        """Count one task of a run as running. If the place has a job, nothing is counted here: that
        job is counted itself.
        """
        run = self._runs[gang.gang_id]
        if gang.gang_id not in self._counted and run.tasks and self._job_of(gang.job) is None:
            self._counted.add(gang.gang_id)
            array.count_element(st.WAITING, st.RUNNING)

    def _uncount(self, gang: Gang, array: JobRecord) -> None:
        if gang.gang_id in self._counted:
            self._counted.discard(gang.gang_id)
            array.count_element(st.RUNNING, st.WAITING)

    # ---- a node or a head that comes back -----------------------------------------------------

    def give_again(self, node_id: str) -> None:
        """Repeat the orders to a node that has connected again."""
        for group, run in list(self._runs.items()):
            gang, array = self._gangs[group], self._job_of(run.array)
            if gang.members[0].node != node_id or array is None:
                continue
            now = self._wall()
            for first, indices in _stretches(run.tasks):
                tasks = [array_task_spec(array, index, now) for index in indices]
                self._effects.extend(gang, first, tasks)
            if run.is_stopped:
                self._effects.stop(gang)

    def restore(self, runs: Iterable[Run], gangs: dict[GroupId, Gang]) -> list[Gang]:
        """Restore what an earlier head wrote. Arrays, jobs and gangs must have been restored
        before. Returns the gangs whose runs have no tasks left.
        """
        empty = []
        for run in runs:
            array, gang = self._job_of(run.array), gangs.get(run.group)
            if array is None or array.spec.array is None or gang is None:
                self._effects.keep_run(run, is_over=True)
                continue
            for number, index in list(run.tasks.items()):
                if not self._arrays.granted_again(array, index):
                    del run.tasks[number]
            self._add(gang, run)
            self._count(gang, array)
            if not run.tasks and self._job_of(gang.job) is None:
                empty.append(gang)
        return empty


def _next(gang: Gang) -> int:
    return gang.members[0].attempt + 1


def _stretches(tasks: dict[int, int]) -> list[tuple[int, list[int]]]:
    """Group the tasks by consecutive attempt numbers. Returns, for each group, its first number and
    its indexes.
    """
    found: list[tuple[int, list[int]]] = []
    for number, index in tasks.items():
        if found and number == found[-1][0] + len(found[-1][1]):
            found[-1][1].append(index)
        else:
            found.append((number, [index]))
    return found
