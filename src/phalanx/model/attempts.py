"""The record of each ended attempt of a job's member: its request and its use.

Amounts are in whole resources, times in seconds, moments in seconds since the epoch.
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
"""How an attempt can have ended. Restarted: its job asked for that; Aborted: it was suspended."""


class Used(msgspec.Struct, array_like=True, frozen=True, kw_only=True, gc=False):
    """The use of an attempt and all processes that it started, as its node measured it.

    A CPU is idle if less than a twentieth of it is used, a GPU if it computes nothing. Sums over
    GPUs are over all its devices; `gpus` 0: none were measured. `samples` 0: the attempt ended
    before anything but its CPU time was sampled.
    """

    ran_s: float = 0.0
    cpu_s: float = 0.0
    """CPU seconds; all other CPU amounts are CPUs."""
    cpu_max: float = 0.0
    cpu_p95: float = 0.0
    cpu_idle_s: float = 0.0
    """Seconds in which it used less than a twentieth of its request."""
    memory_mean: float = 0.0
    """Bytes, like the other memory amounts."""
    memory_max: float = 0.0
    memory_p95: float = 0.0
    gpus: int = 0
    """The number of devices that were measured."""
    gpu_mean: float = 0.0
    """The mean part of time, 0 to 1, in which a device computed; over all devices."""
    gpu_max: float = 0.0
    gpu_p95: float = 0.0
    gpu_idle_s: float = 0.0
    """Device-seconds in which nothing was computed."""
    gpu_memory_mean: float = 0.0
    """Bytes on all its devices together."""
    gpu_memory_max: float = 0.0
    gpu_memory_total: float = 0.0
    """The bytes of memory that its devices have."""
    samples: int = 0


class Attempt(msgspec.Struct, array_like=True, frozen=True, kw_only=True, gc=False):
    """One attempt of one member, from its start on a node to its end there."""

    job: str
    """The job's name; that of an array task is `NAME[7]`."""
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
    """None: unknown, as its node died or its place was taken."""
    node: str = ""
    cpus: float = 0.0
    memory: float = 0.0
    gpus: float = 0.0
    submitted: float
    started: float
    ended: float
    waited_s: float | None = None
    """Seconds that its job waited for places before it; None except for a job's first start."""
    used: Used | None = None
    """None: unknown."""
    signal: int = 0
    """The signal that ended it; 0: none, or unknown."""

    @property
    def elapsed_s(self) -> float:
        """Return the seconds for which it held its place."""
        return max(self.ended - self.started, 0.0)


class AttemptRow(msgspec.Struct, array_like=True, frozen=True, kw_only=True, gc=False, tag=0):
    """A new record, by a key that the same attempt always has."""

    key: bytes
    attempt: Attempt


class UsedRow(msgspec.Struct, array_like=True, frozen=True, kw_only=True, gc=False, tag=1):
    """The use of an attempt that lost its place, was recorded then, and ran on for its grace."""

    key: bytes
    used: Used
