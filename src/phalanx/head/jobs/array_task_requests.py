"""Answers requests about array tasks: `NAME[7]`, `NAME[3-5,9]`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from phalanx.errors import JobCommandError, JobNotFoundError
from phalanx.head.jobs import dependencies
from phalanx.head.jobs import events as ev
from phalanx.head.jobs.array_tasks import LIVES, ArrayTasks, Ended
from phalanx.head.jobs.job_gangs import JobGangs
from phalanx.head.jobs.rows import array_task_description
from phalanx.manifests.arrays import read_ranges, written_array
from phalanx.manifests.names import shown
from phalanx.model.jobs import states as st
from phalanx.model.jobs.arrays import Indices, array_task_uid, split_element
from phalanx.model.jobs.records import JobRecord
from phalanx.model.rows.work import ArrayTaskInfo, JobDescription
from phalanx.protocol.requests.jobs import MAX_ROWS, Command


class ArrayTaskRequests:
    """The handlers of requests about array tasks."""

    def __init__(self, jobs: JobGangs, need: Callable[[str], JobRecord]) -> None:
        self._jobs = jobs
        self._need = need

    def are_meant(self, name: str) -> bool:
        """Whether a name is the name of array tasks."""
        return split_element(name) is not None

    def refuse(self, name: str, what: str) -> None:
        """Raise JobCommandError if a name is the name of array tasks, because the request is
        possible only for a whole array. `what`: the request as a participle, for the error.
        """
        if (found := split_element(name)) is not None:
            array, _ = found
            raise JobCommandError(
                f"array tasks cannot be {what}, only the whole array {shown(array)}"
            )

    def no_such(self, name: str) -> str:
        """Return a sentence that says that the array has no task with this name."""
        array, _, text = self._chosen(name)
        assert array.spec.array is not None
        return f"array {array.uid} has no task {text}; it has {written_array(array.spec.array)}"

    def _chosen(self, name: str) -> tuple[JobRecord, list[int], str]:
        """Return the array, the tasks' positions, and the text in the brackets of NAME[3-5]. Raises
        JobNotFoundError and JobCommandError.
        """
        found = split_element(name)
        assert found is not None
        array_name, text = found
        array = self._array(array_name)
        try:
            ranges = read_ranges(text)
        except ValueError as error:
            raise JobCommandError(f"{shown(name)}: {error}") from None
        indices = self._jobs.arrays.of(array).indices
        positions = [p for i in Indices(ranges) if (p := indices.position(i)) is not None]
        return array, positions, text

    def _array(self, name: str) -> JobRecord:
        array = self._need(name)
        if array.spec.array is None:
            raise JobNotFoundError(f"job {array.uid} is not an array, so it has no array tasks")
        return array

    # ---- commands ----------------------------------------------------------------------------

    def command(self, name: str, command: Command, *, is_again: bool) -> None:
        """Cancel or requeue array tasks. Raises JobNotFoundError. Raises JobCommandError for other
        commands, and if all of the tasks have already ended. A repeated request (`is_again`) raises
        no error for tasks that have ended, because the first request may have ended them.
        """
        if command not in ("cancel", "requeue"):
            raise JobCommandError(
                f"{shown(name)}: array tasks can be cancelled and requeued; {command} is for the "
                "whole array"
            )
        array, positions, _ = self._chosen(name)
        if not positions:
            raise JobNotFoundError(self.no_such(name))
        does = self._jobs.cancel_array_tasks if command == "cancel" else self._requeue
        if (array.is_finished or not does(array, positions)) and not is_again:
            left = "waits or runs any more" if command == "cancel" else "runs"
            raise JobCommandError(f"{shown(name)}: none of these array tasks {left}")

    def _requeue(self, array: JobRecord, positions: list[int]) -> int:
        """End the running tasks among these tasks, which then wait again. Returns the number of
        ended tasks.
        """
        indices = self._jobs.arrays.of(array).indices
        found = [self._jobs.table.get(array_task_uid(array.uid, indices.at(p))) for p in positions]
        running = [job for job in found if job is not None and job.count(st.RUNNING)]
        for job in running:
            self._jobs.handle(ev.Commanded(job=job.uid, action=st.RESTART_JOB))
        return len(running)

    # ---- rows for display --------------------------------------------------------------------

    def that_waits(self, uid: str) -> str:
        """Return the name of the job that must be explained if somebody asks why `uid` waits. For
        an array, that is the job of its first pending task; for any other job, the job itself.
        """
        job = self._jobs.table.get(uid)
        if job is None or job.spec.array is None:
            return uid
        return self._jobs.arrays.first_pending(job) or uid

    def description(self, name: str) -> JobDescription | None:
        """Return the description of an array task that has no job of its own now. Returns None if
        the name does not stand for exactly one such task.
        """
        found = split_element(name)
        if found is None:
            return None
        array, positions, _ = self._chosen(name)
        if len(positions) != 1:
            return None
        tasks = self._jobs.arrays.of(array)
        if tasks.state(positions[0]) == LIVES:
            return None
        index, ended = tasks.indices.at(positions[0]), tasks.ended(positions[0])
        return array_task_description(array, index, ended, self._jobs.wall())

    def rows(self, name: str) -> list[ArrayTaskInfo]:
        """Return rows for the array tasks with this name. Equal tasks share a row."""
        if self.are_meant(name):
            array, positions, _ = self._chosen(name)
            if not positions:
                raise JobNotFoundError(self.no_such(name))
        else:
            array = self._array(name)
            positions = []
        tasks = self._jobs.arrays.of(array)
        chosen = iter(positions) if positions else iter(range(len(tasks.indices)))
        rows: list[ArrayTaskInfo] = []
        for row in self._grouped(array, tasks, _spans(tasks, chosen)):
            if len(rows) == MAX_ROWS:
                break
            rows.append(row)
        return rows

    def _grouped(
        self, array: JobRecord, tasks: ArrayTasks, spans: Iterator[tuple[int, int]]
    ) -> Iterator[ArrayTaskInfo]:
        for begin, end in spans:
            text = tasks.indices.written(begin, end)
            job = None
            if tasks.state(begin) == LIVES:
                first = tasks.indices.at(begin)
                job = self._jobs.table.get(array_task_uid(array.uid, first))
            yield _row(array, text, end - begin, tasks.ended(begin), job)


def _spans(tasks: ArrayTasks, positions: Iterator[int]) -> Iterator[tuple[int, int]]:
    """Yield ranges of the given positions whose tasks look the same in a listing. A task that has a
    job of its own is always a range by itself.
    """
    begin = next(positions, None)
    while begin is not None:
        end, here = begin + 1, tasks.ended(begin)
        following = next(positions, None)
        while following == end and here.state != LIVES and tasks.is_like(begin, following):
            end += 1
            following = next(positions, None)
        yield begin, end
        begin = following


def _row(
    array: JobRecord, text: str, count: int, ended: Ended, job: JobRecord | None
) -> ArrayTaskInfo:
    state, reason, node, starts = ended.state, "", "", ended.starts
    if state == st.BLOCKED:
        paired = ", ".join(uid.removeprefix("default/") for uid in dependencies.paired(array))
        reason = f"the same task of {paired} has not completed (aftercorr)"
    if state in (st.WAITING, st.BLOCKED):
        state = array.state if array.is_finished else st.WAITING
        reason = "" if array.is_finished else reason
    if job is not None:
        state, reason = job.state, job.reason
        node = next((member.node for member in job.members if member.node), "")
        starts = max(member.attempt for member in job.members)
    return ArrayTaskInfo(
        name=f"{array.spec.name}[{text}]",
        elements=count,
        state=state,
        exit_code=ended.exit_code,
        starts=starts,
        node=node,
        reason=reason,
    )
