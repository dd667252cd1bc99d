"""Finished attempts of tasks and calls as rows of a listing."""

from __future__ import annotations

from phalanx.model.ids import PREFIX_BYTES, task_id_bytes, worker_id_of
from phalanx.observe.state.columns import Row
from phalanx.observe.state.label_columns import label_columns
from phalanx.observe.task_journal import About, Run

_JOB = slice(12, 16)
_MS = 1000


def finished_task_row(owner: bytes, run: Run) -> Row:
    """Return the row of a finished attempt. `owner`: the process that submitted the task or
    call.
    """
    row = task_row(owner, run.number, run.name, run.attempt, run.about, run.worker, run.parent)
    row["state"] = run.state
    row["error_type"] = run.error or None
    row["error_message"] = run.summary or None
    row["creation_time_ms"] = milliseconds(run.created)
    row["start_time_ms"] = milliseconds(run.started) if run.worker else None
    row["end_time_ms"] = milliseconds(run.ended)
    return row


def task_row(
    owner: bytes, number: int, name: str, attempt: int, about: About, worker: bytes, parent: bytes
) -> Row:
    """Return the row of an attempt, without the columns that only a finished attempt has.

    `worker`: the process that runs or ran the attempt; "" if none did. The row has only the
    beginnings of the ids of nodes and workers, because processes know no more of them.
    """
    return {
        "task_id": task_id_bytes(owner, number).hex(),
        "attempt_number": attempt,
        "name": name,
        "job_id": owner[_JOB].hex(),
        "actor_id": about.actor.hex() or None,
        "type": "ACTOR_TASK" if about.actor else "NORMAL_TASK",
        "func_or_class_name": about.function or name,
        "parent_task_id": parent.hex() or None,
        "node_id": worker[:PREFIX_BYTES].hex() or None,
        "worker_id": worker_id_of(worker) if worker else None,
        "language": "PYTHON",
        "required_resources": dict(about.resources),
        "placement_group_id": about.group or None,
        "is_debugger_paused": False,
        **label_columns(about.labels),
    }


def milliseconds(seconds: float) -> int | None:
    """Return a time for a row, in milliseconds; None for an unknown time."""
    return int(seconds * _MS) if seconds else None
