"""The errors that readers get for tasks which failed without raising an error."""

from __future__ import annotations

from phalanx.errors import (
    NodeDiedError,
    OutOfMemoryError,
    PhalanxError,
    QueueUnavailableError,
    TaskCancelledError,
    TaskKilledError,
    TaskPlacementGroupRemoved,
    TaskTimeoutError,
    TaskUnschedulableError,
    WorkerCrashedError,
)
from phalanx.model.ids import task_id_bytes
from phalanx.owner.tasks.records import PendingTask
from phalanx.owner.work import FORCED, TIMED_OUT
from phalanx.protocol.messages import Done, Failed
from phalanx.protocol.wire_errors import code_of

_REFUSALS: dict[str, type[PhalanxError]] = {
    code_of(error): error for error in (TaskPlacementGroupRemoved, QueueUnavailableError)
}


def error_kind(message: Done | Failed) -> str:
    """Return Ray's name for the kind of failure of an attempt that ran."""
    was_cancelled = isinstance(message, Failed) and message.kind == "cancelled"
    return "TASK_CANCELLED" if was_cancelled else "TASK_EXECUTION_EXCEPTION"


def error_of(
    task: PendingTask, owner: bytes, kind: str, reason: str, refusal: str = ""
) -> PhalanxError:
    """Return the error of a task of `owner` that will not run again.

    `kind`: cancelled, refused, NODE_DEATHS, PARENTS_KILLED, or how the task's worker ended.
    `refusal`: the code of the error with which the node refused the task.
    """
    name = task.template.name
    if kind == "cancelled":
        return _cancelled(task, owner)
    if kind == "refused":
        made = _REFUSALS.get(refusal, TaskUnschedulableError)
        return made(f"Task {name} cannot be scheduled: {reason}.")
    if kind == "node deaths":
        return NodeDiedError(f"{reason}.")
    if kind == "parents killed":
        return WorkerCrashedError(f"{reason}.")
    if kind == "oom":
        return OutOfMemoryError(f"Task {name} was ended because {reason}.")
    return WorkerCrashedError(
        f"The worker died while it ran task {name} (attempt {task.attempt + 1}): {reason}. It is "
        f"not tried again: max_retries={task.template.max_retries}."
    )


def _cancelled(task: PendingTask, owner: bytes) -> PhalanxError:
    name = task.template.name
    if task.cancelled == TIMED_OUT:
        return TaskTimeoutError(f"Task {name} ran longer than {task.template.timeout_s} s.")
    if task.cancelled == FORCED:
        return TaskKilledError(
            task_id_bytes(owner, task.number).hex(),
            f"Task {name} was cancelled with force=True, which ended the worker that ran it.",
        )
    return TaskCancelledError(task_id_bytes(owner, task.number).hex(), None)
