"""Arrays at the head: which array tasks live, and what remains of those that have ended.

An array is a job whose record counts array tasks instead of members. Only tasks that may run have
jobs of their own, `NAME[INDEX]`, which live like all jobs and are folded into the array when they
end. So waiting tasks cost a cycle nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

import msgspec

from phalanx.head.jobs import dependencies, judging, time_limits
from phalanx.head.jobs import events as ev
from phalanx.head.jobs.array_tasks import (
    COUNTED_AS,
    LIVES,
    PART,
    ArrayTaskRows,
    ArrayTasks,
    Ended,
    Logs,
    end_of,
)
from phalanx.model.jobs import states as st
from phalanx.model.jobs.arrays import ArrayTask, array_task_uid, split_element
from phalanx.model.jobs.dependencies import MET, NEVER, WAITS
from phalanx.model.jobs.records import JobRecord
from phalanx.model.jobs.spec import JobSpec
from phalanx.model.jobs.timing import Moment

WINDOW = 64
"""How many tasks of an array wait for places at once, at most."""
TABLE = "elements"


class ArrayEffects(Protocol):
    """The arrays' requests to their shell."""

    def take_in(self, event: ev.Event) -> None:
        """Handle an event, now."""
        ...

    def after(self, uid: str, action: Callable[[], None]) -> None:
        """Run an action about a job after the current one."""
        ...

    def keep(self, table: str, key: bytes, row: ArrayTaskRows | None) -> None:
        """Store a row; None deletes it."""
        ...


class Arrays:
    """The tasks of all arrays, by the `namespace/name` of the array."""

    def __init__(self, effects: ArrayEffects, job_of: Callable[[str], JobRecord | None]) -> None:
        self._effects = effects
        self._job_of = job_of
        self._arrays: dict[str, ArrayTasks] = {}
        self._live: dict[str, dict[str, str]] = {}
        """The living tasks of each array, each with the state as which it counts: PENDING or
        RUNNING.
        """
        self._paired: dict[str, dict[str, None]] = {}
        """For each array, the arrays whose tasks wait for its tasks."""
        self._unchecked: set[str] = set()
        """Arrays whose blocked tasks must all be checked."""

    def _elements(self, job: JobRecord) -> ArrayTasks:
        assert job.spec.array is not None
        if job.uid not in self._arrays:
            self._arrays[job.uid] = ArrayTasks(job.spec.array)
            self._live[job.uid] = {}
            paired = dependencies.paired(job)
            if paired:
                self._arrays[job.uid].block()
                self._unchecked.add(job.uid)
            for uid in paired:
                self._paired.setdefault(uid, {})[job.uid] = None
        return self._arrays[job.uid]

    # ---- beginning and ending ----------------------------------------------------------------

    def want(self, job: JobRecord, now: float) -> None:
        """Start as many tasks as may live: up to the array's limit, with at most WINDOW that wait
        for places.
        """
        elements, array = self._elements(job), job.spec.array
        assert array is not None
        if job.state not in (st.PENDING, st.RUNNING) or time_limits.is_held_back(job, now):
            return
        self._unblock_all(job, elements)
        room = WINDOW - job.count(st.PENDING)
        if array.limit is not None:
            room = min(room, array.limit - job.count(st.PENDING, st.RUNNING))
        begun: list[int] = []
        while len(begun) < room and (position := elements.next_waiting()) is not None:
            elements.begin(position)
            begun.append(position)
        if not begun:
            return
        self._keep(job.uid, begun)  # before their jobs: what is stored of a task is never outdated
        job.count_element(st.WAITING, st.PENDING, len(begun))
        for position in begun:
            spec = element_spec(job, elements.indices.at(position), now)
            self._live[job.uid][spec.uid] = st.PENDING
            self._effects.take_in(ev.Submitted(spec=spec))
        self._effects.take_in(ev.ArrayTasksChanged(job=job.uid))

    def end(self, job: JobRecord, *, only_pending: bool, comes_back: bool) -> None:
        """End the living tasks, or only those that wait for places."""
        for uid in list(self._live.get(job.uid, ())):
            element = self._job_of(uid)
            if element is None or (only_pending and element.count(st.RUNNING)):
                continue
            if comes_back:
                self._effects.take_in(ev.Deleted(job=uid))
            elif st.TERMINATE_JOB in judging.ALLOWED[element.state]:
                self._effects.take_in(ev.Commanded(job=uid, action=st.TERMINATE_JOB))

    def cancel(self, job: JobRecord, positions: Iterable[int]) -> int:
        """End these tasks for good, including waiting ones; return how many."""
        elements, waiting, count = self._elements(job), [], 0
        for position in positions:
            state = elements.state(position)
            if state in (st.WAITING, st.BLOCKED):
                elements.end(position, st.TERMINATED, None, 0, 0, {})
                job.count_element(state, st.ENDED)
                waiting.append(position)
            elif state == LIVES:
                uid = array_task_uid(job.uid, elements.indices.at(position))
                element = self._job_of(uid)
                if element is not None and st.TERMINATE_JOB in judging.ALLOWED[element.state]:
                    self._effects.take_in(ev.Commanded(job=uid, action=st.TERMINATE_JOB))
                    count += 1
        self._keep(job.uid, waiting)
        self._effects.take_in(ev.ArrayTasksChanged(job=job.uid))
        self._tell_paired(job, waiting)
        return count + len(waiting)

    # ---- news --------------------------------------------------------------------------------

    def element_changed(self, element: JobRecord) -> None:
        """Count a living task that may run now, or waits again."""
        assert element.spec.element is not None
        uid = element.spec.element.array
        live, job = self._live.get(uid, {}), self._job_of(uid)
        now_is = _counted(element)
        was = live.get(element.uid)
        if job is None or was is None or was == now_is:
            return
        live[element.uid] = now_is
        job.count_element(was, now_is)
        self._effects.take_in(ev.ArrayTasksChanged(job=uid))

    def element_over(self, element: JobRecord, logs: Logs) -> str:
        """Fold a task into its array before its job is forgotten: the task has ended, or will wait
        again. Returns the array to look at afterwards; "" for none.
        """
        assert element.spec.element is not None
        uid, index = element.spec.element.array, element.spec.element.index
        elements, job = self._arrays.get(uid), self._job_of(uid)
        was = self._live.get(uid, {}).pop(element.uid, None)
        if elements is None or job is None or was is None:
            return ""
        position = elements.indices.position(index)
        assert position is not None
        if element.is_deleted and element.state == st.TERMINATED and job.state in _GOES_ON:
            elements.wait(position)
            job.count_element(was, st.WAITING)
        else:
            elements.end(position, element.state, *end_of(element), logs)
            job.count_element(was, COUNTED_AS[element.state])
        self._keep(uid, [position])
        return uid

    # ---- tasks that wait for tasks of other arrays -------------------------------------------

    def ended_of(self, element: JobRecord) -> None:
        """Tell tasks of other arrays that wait for this one that it has ended."""
        assert element.spec.element is not None
        job = self._job_of(element.spec.element.array)
        if job is not None and job.uid in self._arrays:
            position = self._arrays[job.uid].indices.position(element.spec.element.index)
            self._tell_paired(job, [] if position is None else [position])

    def _tell_paired(self, job: JobRecord, positions: Iterable[int]) -> None:
        indices = [self._arrays[job.uid].indices.at(position) for position in positions]
        for uid in list(self._paired.get(job.uid, ())):
            other, elements = self._job_of(uid), self._arrays.get(uid)
            if other is None or elements is None or uid in self._unchecked:
                continue
            found = [p for i in indices if (p := elements.indices.position(i)) is not None]
            self._unblock(other, elements, found)

    def _unblock_all(self, job: JobRecord, elements: ArrayTasks) -> None:
        """Check all blocked tasks of an array, if that was not done yet, or if an array is over
        that they wait for: its tasks that did not begin never will.
        """
        others = [self._job_of(uid) for uid in dependencies.paired(job)]
        are_over = any(other is None or other.is_finished for other in others)
        if not job.count(st.BLOCKED) or not (are_over or job.uid in self._unchecked):
            return
        self._unchecked.discard(job.uid)
        blocked, position = [], elements.next_blocked(0)
        while position is not None:
            blocked.append(position)
            position = elements.next_blocked(position + 1)
        self._unblock(job, elements, blocked)

    def _unblock(self, job: JobRecord, elements: ArrayTasks, positions: Iterable[int]) -> None:
        """Let these blocked tasks wait for places if all that they wait for have completed; end
        those for which one never will.
        """
        changed = []
        if job.is_finished:
            return  # they count as ended already
        for position in positions:
            if elements.state(position) != st.BLOCKED:
                continue
            found = {
                self._became(u, elements.indices.at(position)) for u in dependencies.paired(job)
            }
            if NEVER in found:
                elements.end(position, st.DEPENDENCY_FAILED, None, 0, 0, {})
                job.count_element(st.BLOCKED, st.ENDED)
            elif found == {MET}:
                elements.wait(position)
                job.count_element(st.BLOCKED, st.WAITING)
            else:
                continue
            changed.append(position)
        if changed:
            self._keep(job.uid, changed)
            self._effects.take_in(ev.ArrayTasksChanged(job=job.uid))
            self._effects.after(job.uid, lambda: self._tell_paired(job, changed))

    def _became(self, uid: str, index: int) -> str:
        """Return whether the task of an array with this index has completed, is still open, or
        never will complete.
        """
        other = self._job_of(uid)
        if other is None or other.spec.array is None:
            return NEVER
        elements = self._elements(other)
        position = elements.indices.position(index)
        if position is None:
            return NEVER
        state = elements.state(position)
        if state == st.COMPLETED:
            return MET
        is_open = state in (st.WAITING, st.BLOCKED, LIVES) and not other.is_finished
        return WAITS if is_open else NEVER

    def forget(self, job: JobRecord) -> None:
        """Forget an array that is gone."""
        for uid in dependencies.paired(job):
            if self._paired.get(uid, {}).pop(job.uid, job) is None and not self._paired[uid]:
                del self._paired[uid]
        self._unchecked.discard(job.uid)
        elements = self._arrays.pop(job.uid, None)
        self._live.pop(job.uid, None)
        for number in range(-(-len(elements.indices) // PART) if elements is not None else 0):
            self._effects.keep(TABLE, _key(job.uid, number), None)

    # ---- questions ---------------------------------------------------------------------------

    def of(self, job: JobRecord) -> ArrayTasks:
        """Return the tasks of an array."""
        return self._elements(job)

    def ended(self, job: JobRecord, index: int) -> Ended | None:
        """Return the facts about a task that does not live; None if there is none."""
        elements = self._elements(job)
        position = elements.indices.position(index)
        if position is None or elements.state(position) == LIVES:
            return None
        return elements.ended(position)

    def ended_called(self, uid: str) -> Ended | None:
        """Return the same by the name of the task."""
        found = split_element(uid)
        job = None if found is None else self._job_of(found[0])
        if found is None or job is None or job.spec.array is None or not found[1].isdecimal():
            return None
        return self.ended(job, int(found[1][:12]))

    def first_pending(self, job: JobRecord) -> str | None:
        """Return the first of its tasks that waits for places."""
        live = self._live.get(job.uid, {})
        return next((uid for uid, counted in live.items() if counted == st.PENDING), None)

    # ---- the store ---------------------------------------------------------------------------

    def _keep(self, uid: str, positions: Iterable[int]) -> None:
        elements = self._arrays[uid]
        for number in dict.fromkeys(position // PART for position in positions):
            self._effects.keep(TABLE, _key(uid, number), elements.part(uid, number))

    def restore(self, jobs: dict[str, JobRecord], parts: Iterable[ArrayTaskRows]) -> list[str]:
        """Restore what an earlier head wrote, before the jobs live again. Returns the jobs of tasks
        that were folded already and must be forgotten.
        """
        for job in jobs.values():
            if job.spec.array is not None:
                self._elements(job)
        for rows in parts:
            if rows.array in self._arrays:
                self._arrays[rows.array].load(rows)
        over = []
        for job in jobs.values():
            if job.spec.element is not None and not self._lives_again(job, job.spec.element):
                over.append(job.uid)
        for uid, elements in self._arrays.items():
            self._count_again(jobs[uid], elements)
        return over

    def _lives_again(self, job: JobRecord, element: ArrayTask) -> bool:
        elements = self._arrays.get(element.array)
        position = None if elements is None else elements.indices.position(element.index)
        if elements is None or position is None:
            return False
        if elements.state(position) not in (st.WAITING, st.BLOCKED, LIVES):
            return False
        elements.begin(position)
        self._live[element.array][job.uid] = _counted(job)
        return True

    def _count_again(self, job: JobRecord, elements: ArrayTasks) -> None:
        """Count an array's tasks again. A task marked as living whose job was not stored yet has
        begun nowhere, so it waits.
        """
        live = self._live[job.uid]
        counts = elements.counts()
        if counts.pop(LIVES) > len(live):
            for position, index in enumerate(elements.indices):
                if elements.state(position) == LIVES and array_task_uid(job.uid, index) not in live:
                    elements.wait(position)
                    counts[st.WAITING] += 1
        tally: dict[str, int] = {}
        for state, count in counts.items():
            counted = COUNTED_AS[state]
            if state in (st.WAITING, st.BLOCKED) and job.is_finished:
                counted = st.ENDED
            tally[counted] = tally.get(counted, 0) + count
        for counted in live.values():
            tally[counted] = tally.get(counted, 0) + 1
        job.tally = {"": tally}


_GOES_ON = (st.PENDING, st.RUNNING, st.ABORTING, st.ABORTED, st.RESTARTING)


def _counted(element: JobRecord) -> str:
    return st.RUNNING if element.state != st.PENDING else st.PENDING


def _key(uid: str, number: int) -> bytes:
    return f"{uid}\0{number}".encode()


def element_spec(job: JobRecord, index: int, now: float) -> JobSpec:
    """Return the job of an array task that is submitted at `now`."""
    spec, array = job.spec, job.spec.array
    assert array is not None
    deadline, ends = spec.timing.deadline, time_limits.deadline_of(job)
    if deadline is not None and deadline.at is None and ends is not None:
        deadline = Moment(after_s=ends - now)
    timing = msgspec.structs.replace(
        spec.timing,
        begin=None,
        deadline=deadline,
        is_held=False,
    )
    element = ArrayTask(
        array=spec.uid,
        index=index,
        count=array.count,
        first=array.first,
        last=array.last,
        step=array.step,
        since=job.submitted if job.queued is None else job.queued,
    )
    return msgspec.structs.replace(
        spec,
        name=array_task_uid(spec.name, index),
        timing=timing,
        after=None,
        array=None,
        element=element,
        ttl_s=0.0,
    )
