"""The states, events and actions of jobs, members, flows and queues, under Volcano's names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PENDING: Final = "Pending"
RUNNING: Final = "Running"
RESTARTING: Final = "Restarting"
ABORTING: Final = "Aborting"
ABORTED: Final = "Aborted"
COMPLETING: Final = "Completing"
COMPLETED: Final = "Completed"
TERMINATING: Final = "Terminating"
TERMINATED: Final = "Terminated"
TIMED_OUT: Final = "TimeOut"
DEADLINE: Final = "Deadline"
DEPENDENCY_FAILED: Final = "DependencyFailed"
"""The state of a job with a dependency that can never be met."""
FAILED: Final = "Failed"
SUCCEEDED: Final = "Succeeded"

FINISHED: Final = frozenset({COMPLETED, FAILED, TERMINATED, TIMED_OUT, DEADLINE, DEPENDENCY_FAILED})
"""The states that a job never leaves."""

SETTLED: Final = FINISHED | {ABORTED}
"""States in which no member of a job runs. Only a user's command starts members again."""

OUT_OF_TIME: Final = frozenset({TIMED_OUT, DEADLINE})
"""The finished states of jobs whose time ran out."""

ENDING: Final[Mapping[str, str]] = {
    ABORTING: ABORTED,
    COMPLETING: COMPLETED,
    TERMINATING: TERMINATED,
}
"""States in which the members are being ended, each with the state that follows when no member is
left.

A job that is terminated because its time has run out, or because a dependency failed, gets the
state `JobRecord.ends_as` instead.
"""

_LEAVING = frozenset({RESTARTING, ABORTING, COMPLETING, TERMINATING, COMPLETED, FAILED})

JOB: Final[Mapping[str, frozenset[str]]] = {
    PENDING: frozenset({RUNNING}) | _LEAVING,
    RUNNING: frozenset({PENDING}) | _LEAVING,
    RESTARTING: frozenset({PENDING, ABORTING, TERMINATING, COMPLETING, FAILED}),
    ABORTING: frozenset({ABORTED, RESTARTING, TERMINATING}),
    ABORTED: frozenset({RESTARTING, TERMINATING}),
    COMPLETING: frozenset({COMPLETED}),
    TERMINATING: frozenset({TERMINATED, TIMED_OUT, DEADLINE, DEPENDENCY_FAILED}),
    COMPLETED: frozenset(),
    FAILED: frozenset(),
    TERMINATED: frozenset(),
    TIMED_OUT: frozenset(),
    DEADLINE: frozenset(),
    DEPENDENCY_FAILED: frozenset(),
}

ANY_EVENT: Final = "*"
POD_FAILED: Final = "PodFailed"
POD_EVICTED: Final = "PodEvicted"
POD_PENDING: Final = "PodPending"
UNKNOWN_EVENT: Final = "Unknown"
TASK_COMPLETED: Final = "TaskCompleted"
TASK_FAILED: Final = "TaskFailed"
JOB_UPDATED: Final = "JobUpdated"
COMMAND_ISSUED: Final = "CommandIssued"

POLICY_EVENTS: Final = (
    ANY_EVENT,
    POD_FAILED,
    POD_EVICTED,
    POD_PENDING,
    UNKNOWN_EVENT,
    TASK_COMPLETED,
    TASK_FAILED,
    JOB_UPDATED,
)
"""The events that a policy may wait for."""

ABORT_JOB: Final = "AbortJob"
RESTART_JOB: Final = "RestartJob"
RESTART_TASK: Final = "RestartTask"
RESTART_POD: Final = "RestartPod"
RESTART_PARTITION: Final = "RestartPartition"
TERMINATE_JOB: Final = "TerminateJob"
COMPLETE_JOB: Final = "CompleteJob"
RESUME_JOB: Final = "ResumeJob"

POLICY_ACTIONS: Final = (
    ABORT_JOB,
    RESTART_JOB,
    RESTART_TASK,
    RESTART_POD,
    RESTART_PARTITION,
    TERMINATE_JOB,
    COMPLETE_JOB,
    RESUME_JOB,
)
"""The actions that a policy may take."""

PREPARING: Final = "Preparing"
"""The state that is shown for a pending job or member while its environment is being prepared."""
WAITING: Final = "Waiting"
"""The state of a member whose place is not requested yet, because its group waits for other groups
or the job is held.
"""
BLOCKED: Final = "Blocked"
"""The state of an array task that waits for the task with its index in another array."""
ENDED: Final = "Ended"
"""The state of a member that was ended on purpose, and that starts again only together with its
whole job.
"""

MEMBER: Final[Mapping[str, frozenset[str]]] = {
    WAITING: frozenset({PENDING, ENDED}),
    PENDING: frozenset({RUNNING, SUCCEEDED, FAILED, WAITING, TERMINATING, ENDED}),
    RUNNING: frozenset({SUCCEEDED, FAILED, WAITING, TERMINATING, ENDED}),
    TERMINATING: frozenset({WAITING, ENDED, SUCCEEDED, FAILED}),
    SUCCEEDED: frozenset({WAITING}),
    FAILED: frozenset({WAITING}),
    ENDED: frozenset({WAITING}),
}

FLOW: Final[Mapping[str, frozenset[str]]] = {
    PENDING: frozenset({RUNNING, "Succeed", FAILED, TERMINATING}),
    RUNNING: frozenset({"Succeed", FAILED, TERMINATING}),
    "Succeed": frozenset({TERMINATING}),
    FAILED: frozenset({TERMINATING}),
    TERMINATING: frozenset(),
}
SUCCEED: Final = "Succeed"

OPEN: Final = "Open"
CLOSING: Final = "Closing"
CLOSED: Final = "Closed"
UNKNOWN: Final = "Unknown"

QUEUE: Final[Mapping[str, frozenset[str]]] = {
    OPEN: frozenset({CLOSING, CLOSED}),
    CLOSING: frozenset({CLOSED, OPEN}),
    CLOSED: frozenset({OPEN}),
    UNKNOWN: frozenset({OPEN, CLOSING, CLOSED}),
}
