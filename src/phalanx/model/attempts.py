"""What is written down of each attempt of a job's member once it has ended: asked and used.

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
    """What an attempt used, with all processes that it started, as its node measured it.

    Idle is a CPU of which less than a twentieth is used, or a GPU that computes nothing. Of GPUs
    the sums are over its devices; `gpus` 0: none were measured. `samples` 0: it was over before
    anything but its CPU time was looked at.
    """

    ran_s: float = 0.0
    cpu_s: float = 0.0
    """CPU seconds; all other CPU amounts are CPUs."""
    cpu_max: float = 0.0
    cpu_p95: float = 0.0
    cpu_idle_s: float = 0.0
    """Seconds in which it used less than a twentieth of what it had asked for."""
    memory_mean: float = 0.0
    """Bytes, as the others."""
    memory_max: float = 0.0
    memory_p95: float = 0.0
    gpus: int = 0
    """Devices that were measured."""
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
    """What its devices have."""
    samples: int = 0


class Attempt(msgspec.Struct, array_like=True, frozen=True, kw_only=True, gc=False):
    """One attempt of one member, from its start on a node to its end there."""

    job: str
    """The job's name; that of an element of an array is `NAME[7]`."""
    title: str = ""
    """What it was called where its name is a number: by `sbatch`."""
    namespace: str
    member: str
    attempt: int
    user: str
    queue: str
    command: str
    state: str
    reason: str = ""
    exit_code: int | None = None
    """None: nobody knows it, as its node died or its place was taken."""
    node: str = ""
    cpus: float = 0.0
    memory: float = 0.0
    gpus: float = 0.0
    submitted: float
    started: float
    ended: float
    waited_s: float | None = None
    """How long its job waited for places before it; None of all but a job's first start."""
    used: Used | None = None
    """None: not known."""
    signal: int = 0
    """By which it was ended; 0: by none, or nobody knows."""

    @property
    def elapsed_s(self) -> float:
        """How long it held its place."""
        return max(self.ended - self.started, 0.0)


class AttemptRow(msgspec.Struct, array_like=True, frozen=True, kw_only=True, gc=False, tag=0):
    """A new record, by a key that the same attempt always has."""

    key: bytes
    attempt: Attempt


class UsedRow(msgspec.Struct, array_like=True, frozen=True, kw_only=True, gc=False, tag=1):
    """What an attempt used whose record is there already: it went on for its grace."""

    key: bytes
    used: Used
