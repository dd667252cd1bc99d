"""Arrays at the head: which array tasks are live, and the results of those that have ended.

An array is a job whose record counts array tasks instead of members. Only tasks that may run have
jobs of their own, `NAME[INDEX]`. Such a job is like any other; when it ends, its result is recorded
in the array and the job is forgotten. So waiting tasks cost a cycle nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

import msgspec

from phalanx.head.jobs import dependencies, judging, time_limits
from phalanx.head.jobs import events as ev
from phalanx.head.jobs.array_tasks import (
    COUNTED_AS,
    GRANTED,
    LIVES,
    PART,
    ArrayTaskRows,
    ArrayTasks,
    Ended,
    Logs,
    end_of,
)
from phalanx.model.ids import JobId
from phalanx.model.jobs import states as st
from phalanx.model.jobs.arrays import ArrayTask, array_task_name, array_task_uid, split_element
from phalanx.model.jobs.dependencies import MET, NEVER, WAITS
from phalanx.model.jobs.records import JobRecord
from phalanx.model.jobs.spec import JobSpec
from phalanx.model.jobs.timing import Moment
from phalanx.model.member_logs import for_task

WINDOW = 64
"""The largest number of an array's tasks that wait for places at the same time."""
TABLE = "elements"


class ArrayEffects(Protocol):
    """Requests that the arrays make to their shell."""

    def take_in(self, event: ev.Event) -> None:
        """Handle an event now, and not after the current action."""
        ...

    def after(self, uid: str, action: Callable[[], None]) -> None:
        """Run an action on a job after the current one."""
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
        self._live: dict[str, dict[JobId, str]] = {}
        """The live tasks of each array, each with the state as which it is counted: PENDING or
        RUNNING.
        """
        self._windows: dict[str, int] = {}
        """For each array with runs (see `array_runs`), how many of its tasks may wait for places at
        the same time.
        """
        self._paired: dict[str, dict[str, None]] = {}
        """For each array, the other arrays whose tasks wait for its tasks."""
        self._unchecked: set[str] = set()
        """Arrays whose blocked tasks must all be checked."""

    def _tasks(self, job: JobRecord) -> ArrayTasks:
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
        """Make tasks live, up to the array's limit. At most WINDOW of its tasks wait for places at
        the same time; fewer if the array has runs (see `narrow_window`).
        """
        tasks, array = self._tasks(job), job.spec.array
        assert array is not None
        if job.state not in (st.PENDING, st.RUNNING) or time_limits.is_held_back(job, now):
            return
        self._unblock_all(job, tasks)
        room = self._windows.get(job.uid, WINDOW) - job.count(st.PENDING)
        if array.limit is not None:
            room = min(room, array.limit - job.count(st.PENDING, st.RUNNING))
        begun: list[int] = []
        while len(begun) < room and (position := tasks.next_waiting()) is not None:
            tasks.begin(position)
            begun.append(position)
        if not begun:
            return
        # This is stored before the jobs of the tasks, so the stored state of a task is never out of
        # date.
        self._keep(job.uid, begun)
        job.count_element(st.WAITING, st.PENDING, len(begun))
        for position in begun:
            spec = array_task_spec(job, tasks.indices.at(position), now)
            self._live[job.uid][spec.uid] = st.PENDING
            self._effects.take_in(ev.Submitted(spec=spec))
        self._effects.take_in(ev.ArrayTasksChanged(job=job.uid))

    def end(self, job: JobRecord, *, comes_back: bool, spares: Callable[[JobRecord], bool]) -> None:
        """End the live tasks, except for those for which `spares` is true. `comes_back`: whether
        the tasks wait again afterwards, instead of ending for good.
        """
        for uid in list(self._live.get(job.uid, ())):
            task = self._job_of(uid)
            if task is None or spares(task):
                continue
            if comes_back:
                self._effects.take_in(ev.Deleted(job=uid))
            elif st.TERMINATE_JOB in judging.ALLOWED[task.state]:
                self._effects.take_in(ev.Commanded(job=uid, action=st.TERMINATE_JOB))

    def cancel(self, job: JobRecord, positions: Iterable[int]) -> int:
        """End these tasks for good, including waiting ones. Returns how many were ended."""
        tasks, waiting, count = self._tasks(job), [], 0
        for position in positions:
            state = tasks.state(position)
            if state in (st.WAITING, st.BLOCKED):
                tasks.end(position, st.TERMINATED, None, 0, 0, {})
                job.count_element(state, st.ENDED)
                waiting.append(position)
            elif state == LIVES:
                uid = array_task_uid(job.uid, tasks.indices.at(position))
                task = self._job_of(uid)
                if task is not None and st.TERMINATE_JOB in judging.ALLOWED[task.state]:
                    self._effects.take_in(ev.Commanded(job=uid, action=st.TERMINATE_JOB))
                    count += 1
        self._keep(job.uid, waiting)
        self._effects.take_in(ev.ArrayTasksChanged(job=job.uid))
        self._tell_paired(job, waiting)
        return count + len(waiting)

    # ---- runs --------------------------------------------------------------------------------

    def waiting(self, job: JobRecord) -> int:
        """Return how many tasks are waiting in the array."""
        return self._tasks(job).waiting()

    def narrow_window(self, uid: str) -> None:
        """Let only one task at a time wait for a place. This one shows whether there are resources
        for one more place. The other tasks run in the places that the array already has.
        """
        self._windows.setdefault(uid, 1)

    def reset_window(self, uid: str) -> None:
        """Let the usual number of tasks wait for places, as before the array had runs."""
        self._windows.pop(uid, None)

    def placed(self, job: JobRecord) -> None:
        """Let twice as many tasks wait for places, because one of them has just got a place."""
        if job.uid in self._windows:
            self._windows[job.uid] = min(2 * self._windows[job.uid], WINDOW)

    def thin_out(self, job: JobRecord, before: float, has_none: Callable[[JobId], bool]) -> None:
        """Let only one task at a time wait for a place, if tasks have waited too long.

        These are the tasks that began to wait earlier than `before`, a wall-clock time, and for
        which `has_none` is true: the task with this id has no place, and no attempt to place it is
        in progress. The first of them goes on waiting. The others are put back into the array.
        """
        live = self._live[job.uid]
        pending = [uid for uid, counted in live.items() if counted == st.PENDING]
        late = [uid for uid in pending if self._waits_since(uid) < before and has_none(uid)]
        if not late:
            return
        self._windows[job.uid] = 1
        for uid in late[1:]:
            self._effects.take_in(ev.Deleted(job=uid))

    def _waits_since(self, uid: str) -> float:
        task = self._job_of(uid)
        if task is None or any(member.attempt > 1 for member in task.members):
            return float("inf")
        return task.submitted

    def grant(self, job: JobRecord, most: int, is_free: Callable[[JobId], bool]) -> list[int]:
        """Mark the first waiting tasks as tasks of a run, and return their indexes. `is_free`:
        whether a task may have a place now.
        """
        tasks = self._tasks(job)
        found: list[int] = []
        while len(found) < most and (position := tasks.next_waiting()) is not None:
            index = tasks.indices.at(position)
            if not is_free(array_task_uid(job.uid, index)):
                break
            tasks.grant(position)
            found.append(index)
        return found

    def granted_again(self, job: JobRecord, index: int) -> bool:
        """Mark a task as part of a restored run. Returns False if the task has ended or is live."""
        tasks = self._tasks(job)
        position = tasks.indices.position(index)
        if position is None or tasks.state(position) != st.WAITING:
            return False
        tasks.grant(position)
        return True

    def mark_live(self, job: JobRecord, index: int, uid: JobId) -> None:
        """Mark a task of a run as live: the task gets a job of its own."""
        tasks = self._tasks(job)
        position = tasks.indices.position(index)
        assert position is not None
        tasks.begin(position)
        self._keep(job.uid, [position])
        job.count_element(st.WAITING, st.PENDING)
        self._live[job.uid][uid] = st.PENDING

    def run_ended(
        self, job: JobRecord, indices: Iterable[int], member: str, log: tuple[str, str] | None
    ) -> None:
        """Note that tasks of a run have succeeded. `log`: the node and the path of their output,
        with `{}` in place of the index.
        """
        tasks, positions = self._tasks(job), []
        for index in indices:
            position = tasks.indices.position(index)
            assert position is not None
            logs = {} if log is None else {member: [(log[0], for_task(log[1], index))]}
            tasks.end(position, st.COMPLETED, 0, 0, 1, logs)
            job.count_element(st.WAITING, st.SUCCEEDED)
            positions.append(position)
        self._keep(job.uid, positions)
        self._effects.after(job.uid, lambda: self._tell_paired(job, positions))

    def run_returned(self, job: JobRecord, waits: Iterable[int], cancelled: Iterable[int]) -> None:
        """Take back tasks of a run that have not started: those in `waits` wait again, and those in
        `cancelled` are ended.
        """
        tasks, ended = self._tasks(job), []
        for index in waits:
            position = tasks.indices.position(index)
            assert position is not None
            tasks.wait(position)
        for index in cancelled:
            position = tasks.indices.position(index)
            assert position is not None
            tasks.end(position, st.TERMINATED, None, 0, 0, {})
            job.count_element(st.WAITING, st.ENDED)
            ended.append(position)
        self._keep(job.uid, ended)
        self._effects.after(job.uid, lambda: self._tell_paired(job, ended))

    # ---- news --------------------------------------------------------------------------------

    def task_changed(self, task: JobRecord) -> None:
        """Count a live task as waiting or as running, after the state of its job has changed."""
        assert task.spec.element is not None
        uid = task.spec.element.array
        live, job = self._live.get(uid, {}), self._job_of(uid)
        now_is = _counted(task)
        was = live.get(task.uid)
        if job is None or was is None or was == now_is:
            return
        live[task.uid] = now_is
        job.count_element(was, now_is)
        self._effects.take_in(ev.ArrayTasksChanged(job=uid))

    def task_over(self, task: JobRecord, logs: Logs) -> JobId:
        """Record a task in its array before the task's job is forgotten. The task has ended, or
        will wait again. Returns the array that must be checked afterwards; "" if none must.
        """
        assert task.spec.element is not None
        uid, index = task.spec.element.array, task.spec.element.index
        tasks, job = self._arrays.get(uid), self._job_of(uid)
        was = self._live.get(uid, {}).pop(task.uid, None)
        if tasks is None or job is None or was is None:
            return JobId("")
        position = tasks.indices.position(index)
        assert position is not None
        if task.is_deleted and task.state == st.TERMINATED and job.state in _GOES_ON:
            tasks.wait(position)
            job.count_element(was, st.WAITING)
        else:
            tasks.end(position, task.state, *end_of(task), logs)
            job.count_element(was, COUNTED_AS[task.state])
        self._keep(uid, [position])
        return uid

    # ---- tasks that wait for tasks of other arrays -------------------------------------------

    def ended_of(self, task: JobRecord) -> None:
        """Note that a task has ended, and notify the tasks of other arrays that wait for it."""
        assert task.spec.element is not None
        job = self._job_of(task.spec.element.array)
        if job is not None and job.uid in self._arrays:
            position = self._arrays[job.uid].indices.position(task.spec.element.index)
            self._tell_paired(job, [] if position is None else [position])

    def _tell_paired(self, job: JobRecord, positions: Iterable[int]) -> None:
        indices = [self._arrays[job.uid].indices.at(position) for position in positions]
        for uid in list(self._paired.get(job.uid, ())):
            other, tasks = self._job_of(uid), self._arrays.get(uid)
            if other is None or tasks is None or uid in self._unchecked:
                continue
            found = [p for i in indices if (p := tasks.indices.position(i)) is not None]
            self._unblock(other, tasks, found)

    def _unblock_all(self, job: JobRecord, tasks: ArrayTasks) -> None:
        """Check all blocked tasks of an array, if that was not done yet or if an array for which
        they wait is over. Tasks that had not begun when their array ended will never begin.
        """
        others = [self._job_of(uid) for uid in dependencies.paired(job)]
        are_over = any(other is None or other.is_finished for other in others)
        if not job.count(st.BLOCKED) or not (are_over or job.uid in self._unchecked):
            return
        self._unchecked.discard(job.uid)
        blocked, position = [], tasks.next_blocked(0)
        while position is not None:
            blocked.append(position)
            position = tasks.next_blocked(position + 1)
        self._unblock(job, tasks, blocked)

    def _unblock(self, job: JobRecord, tasks: ArrayTasks, positions: Iterable[int]) -> None:
        """Let a blocked task wait for places once all tasks on which it depends have completed. End
        it if one of them can never complete.
        """
        changed = []
        if job.is_finished:
            return  # the array counts these tasks as ended already
        for position in positions:
            if tasks.state(position) != st.BLOCKED:
                continue
            found = {self._became(u, tasks.indices.at(position)) for u in dependencies.paired(job)}
            if NEVER in found:
                tasks.end(position, st.DEPENDENCY_FAILED, None, 0, 0, {})
                job.count_element(st.BLOCKED, st.ENDED)
            elif found == {MET}:
                tasks.wait(position)
                job.count_element(st.BLOCKED, st.WAITING)
            else:
                continue
            changed.append(position)
        if changed:
            self._keep(job.uid, changed)
            self._effects.take_in(ev.ArrayTasksChanged(job=job.uid))
            self._effects.after(job.uid, lambda: self._tell_paired(job, changed))

    def _became(self, uid: str, index: int) -> str:
        """Return whether the array task with this index has completed (MET), may still complete
        (WAITS), or can never complete (NEVER).
        """
        other = self._job_of(uid)
        if other is None or other.spec.array is None:
            return NEVER
        tasks = self._tasks(other)
        position = tasks.indices.position(index)
        if position is None:
            return NEVER
        state = tasks.state(position)
        if state == st.COMPLETED:
            return MET
        is_open = state in (st.WAITING, st.BLOCKED, GRANTED, LIVES) and not other.is_finished
        return WAITS if is_open else NEVER

    def forget(self, job: JobRecord) -> None:
        """Forget an array that is gone."""
        for uid in dependencies.paired(job):
            if self._paired.get(uid, {}).pop(job.uid, job) is None and not self._paired[uid]:
                del self._paired[uid]
        self._unchecked.discard(job.uid)
        self._windows.pop(job.uid, None)
        tasks = self._arrays.pop(job.uid, None)
        self._live.pop(job.uid, None)
        for number in range(-(-len(tasks.indices) // PART) if tasks is not None else 0):
            self._effects.keep(TABLE, _key(job.uid, number), None)

    # ---- questions ---------------------------------------------------------------------------

    def of(self, job: JobRecord) -> ArrayTasks:
        """Return the tasks of an array."""
        return self._tasks(job)

    def ended(self, job: JobRecord, index: int) -> Ended | None:
        """Return the facts about a task that currently has no job; None if the array has no such
        task.
        """
        tasks = self._tasks(job)
        position = tasks.indices.position(index)
        if position is None or tasks.state(position) == LIVES:
            return None
        return tasks.ended(position)

    def ended_called(self, uid: str) -> Ended | None:
        """Return the facts about the task with this name that currently has no job; None if the
        array has no such task.
        """
        found = split_element(uid)
        if found is None:
            return None
        array, index = found
        job = self._job_of(array)
        if job is None or job.spec.array is None or not index.isdecimal():
            return None
        return self.ended(job, int(index[:12]))

    def first_pending(self, job: JobRecord) -> str | None:
        """Return the array's first task that waits for places."""
        live = self._live.get(job.uid, {})
        return next((uid for uid, counted in live.items() if counted == st.PENDING), None)

    # ---- the store ---------------------------------------------------------------------------

    def _keep(self, uid: str, positions: Iterable[int]) -> None:
        tasks = self._arrays[uid]
        for number in dict.fromkeys(position // PART for position in positions):
            self._effects.keep(TABLE, _key(uid, number), tasks.part(uid, number))

    def restore(self, jobs: dict[str, JobRecord], parts: Iterable[ArrayTaskRows]) -> list[JobId]:
        """Restore what an earlier head wrote, before the jobs are restored. Returns the jobs of
        tasks that are already recorded in their arrays. The caller must forget these jobs.
        """
        for job in jobs.values():
            if job.spec.array is not None:
                self._tasks(job)
        for rows in parts:
            if rows.array in self._arrays:
                self._arrays[rows.array].load(rows)
        over = []
        for job in jobs.values():
            if job.spec.element is not None and not self._lives_again(job, job.spec.element):
                over.append(job.uid)
        for uid, tasks in self._arrays.items():
            self._count_again(jobs[uid], tasks)
        return over

    def _lives_again(self, job: JobRecord, task: ArrayTask) -> bool:
        tasks = self._arrays.get(task.array)
        position = None if tasks is None else tasks.indices.position(task.index)
        if tasks is None or position is None:
            return False
        if tasks.state(position) not in (st.WAITING, st.BLOCKED, LIVES):
            return False
        tasks.begin(position)
        self._live[task.array][job.uid] = _counted(job)
        return True

    def _count_again(self, job: JobRecord, tasks: ArrayTasks) -> None:
        """Count an array's tasks again. A task that is marked as live but has no stored job has not
        started on any node, so the task waits.
        """
        live = self._live[job.uid]
        counts = tasks.counts()
        if counts.pop(LIVES) > len(live):
            for position, index in enumerate(tasks.indices):
                if tasks.state(position) == LIVES and array_task_uid(job.uid, index) not in live:
                    tasks.wait(position)
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


def _counted(task: JobRecord) -> str:
    return st.RUNNING if task.state != st.PENDING else st.PENDING


def _key(uid: str, number: int) -> bytes:
    return f"{uid}\0{number}".encode()


def array_task_spec(job: JobRecord, index: int, now: float) -> JobSpec:
    """Return the job of an array task, with `now` as the time of submission."""
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
    task = ArrayTask(
        array=spec.uid,
        index=index,
        count=array.count,
        first=array.first,
        last=array.last,
        step=array.step,
        since=time_limits.waits_since(job),
    )
    return msgspec.structs.replace(
        spec,
        name=array_task_name(spec.name, index),
        timing=timing,
        after=None,
        array=None,
        element=task,
        ttl_s=0.0,
    )
