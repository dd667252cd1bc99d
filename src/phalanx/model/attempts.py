"""The record of each ended attempt of a job's member: the amounts that the attempt requested and
used.

Amounts are in whole resources, durations in seconds, and points in time in seconds since the epoch.
"""

from __future__ import annotations

from typing import Final

import msgspec

MEMBER_COMPLETED: Final = "Completed"
PREEMPTED: Final = "Preempted"
NODE_LOST: Final = "NodeLost"
RESTARTED: Final = "Restarted"
STATES: Final = (
    MEMBER_COMPLETED, "Failed", "Terminated", "TimeOut", "Deadline", PREEMPTED, NODE_LOST,
    RESTARTED, "Aborted",
)  # fmt: skip
"""The states in which an attempt can end. Restarted means that the job started its members again,
and Aborted that the job was suspended.
"""

OUT_OF_MEMORY: Final = "out of memory"
"""The beginning of the reason of a member that was ended because it used too much memory."""


class Used(msgspec.Struct, array_like=True, frozen=True, kw_only=True, gc=False):
    """The usage of an attempt and all processes that it started, as its node measured it.

    A CPU counts as idle while less than a twentieth of it is used, and a GPU while it computes
    nothing. Values of GPUs cover all devices of the attempt. If `gpus` is 0, no device was
    measured. If `samples` is 0, the attempt ended before its first sample, and only its CPU time is
    known.
    """

    ran_s: float = 0.0
    cpu_s: float = 0.0
    """CPU seconds that the attempt used. The other fields about CPUs are numbers of CPUs."""
    cpu_max: float = 0.0
    cpu_p95: float = 0.0
    cpu_idle_s: float = 0.0
    """Seconds in which the attempt used less than a twentieth of the requested CPUs."""
    memory_mean: float = 0.0
    """Mean bytes of memory in use. The other fields about memory are bytes, too."""
    memory_max: float = 0.0
    memory_p95: float = 0.0
    gpus: int = 0
    """The number of devices that were measured."""
    gpu_mean: float = 0.0
    """The part of the time, from 0 to 1, in which a device computed; the mean over all devices."""
    gpu_max: float = 0.0
    gpu_p95: float = 0.0
    gpu_idle_s: float = 0.0
    """The device-seconds in which the attempt's devices computed nothing, summed over the
    devices.
    """
    gpu_memory_mean: float = 0.0
    """The mean number of bytes used on all devices together."""
    gpu_memory_max: float = 0.0
    gpu_memory_total: float = 0.0
    """The bytes of memory of all devices together."""
    samples: int = 0


class Attempt(msgspec.Struct, array_like=True, frozen=True, kw_only=True, gc=False):
    """One attempt of one member, from its start on a node to its end."""

    job: str
    """The job's name; for an array task, `NAME[7]`."""
    title: str = ""
    """The name given to `sbatch`, for a job whose name is a number."""
    namespace: str
    member: str
    attempt: int
    user: str
    queue: str
    command: str
    state: str
    reason: str = ""
    exit_code: int | None = None
    """The exit code; None if unknown, because the node died or the member was preempted."""
    node: str = ""
    cpus: float = 0.0
    memory: float = 0.0
    gpus: float = 0.0
    submitted: float
    started: float
    ended: float
    waited_s: float | None = None
    """Seconds that the job waited before this attempt, if this is the job's first start; else
    None.
    """
    used: Used | None = None
    """The usage; None if unknown."""
    signal: int = 0
    """The signal that ended the process; 0 if no signal did, or if unknown."""

    @property
    def elapsed_s(self) -> float:
        """The seconds for which the attempt held its resources."""
        return max(self.ended - self.started, 0.0)


class AttemptRow(msgspec.Struct, array_like=True, frozen=True, kw_only=True, gc=False, tag=0):
    """A record of an attempt for the history, with the attempt's key, which never changes."""

    key: bytes
    attempt: Attempt


class UsedRow(msgspec.Struct, array_like=True, frozen=True, kw_only=True, gc=False, tag=1):
    """The usage of an attempt whose record was written earlier.

    The record is written when the attempt loses its resources. The attempt's processes may then run
    on until their grace period ends, so their usage is known only later.
    """

    key: bytes
    used: Used
