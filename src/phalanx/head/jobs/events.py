"""Events of jobs. Every event names its job by `namespace/name`."""

from __future__ import annotations

import msgspec

from phalanx.model.ids import JobId
from phalanx.model.jobs.records import WHOLE
from phalanx.model.jobs.spec import JobSpec


class JobEvent(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Something that happened to a job."""

    job: JobId


class Submitted(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A new job, by the request of this id, which may come twice."""

    spec: JobSpec
    request: bytes = b""


class Commanded(JobEvent, frozen=True, kw_only=True, tag=True):
    """A command of a user: AbortJob suspends, ResumeJob resumes, TerminateJob cancels."""

    action: str
    group: str = ""
    index: int = WHOLE
    reason: str = "by command"


class Resized(JobEvent, frozen=True, kw_only=True, tag=True):
    """The job's size or priority was changed; `manifests.job_rules` defines what may not change."""

    spec: JobSpec


class Held(JobEvent, frozen=True, kw_only=True, tag=True):
    """A user holds the job until it is released, or releases it."""

    is_held: bool


class Changed(JobEvent, frozen=True, kw_only=True, tag=True):
    """A waiting job gets another queue, priority or time."""

    spec: JobSpec


class Deleted(JobEvent, frozen=True, kw_only=True, tag=True):
    """End the job if it lives, then forget it."""


class Stranded(JobEvent, frozen=True, kw_only=True, tag=True):
    """Some members run, the others cannot be placed: the podgroup is Unknown."""


class OthersChanged(JobEvent, frozen=True, kw_only=True, tag=True):
    """A job that this one waits for has begun, or has ended."""


class ArrayTasksChanged(JobEvent, frozen=True, kw_only=True, tag=True):
    """Tasks of an array have begun or ended, or wait again; its record counts them already."""


class MemberEvent(JobEvent, frozen=True, kw_only=True, tag=True):
    """News of one attempt of one member."""

    group: str
    index: int
    attempt: int


class MemberRan(MemberEvent, frozen=True, kw_only=True, tag=True):
    """Its processes run: on this node, for this many seconds."""

    node: str = ""
    ran_s: float = 0.0


class MemberExited(MemberEvent, frozen=True, kw_only=True, tag=True):
    """Its processes ended on their own, or after they were asked to end."""

    exit_code: int
    reason: str = ""
    signal: int = 0
    """The signal that ended them; 0 if none did."""
    is_parent_killed: bool = False
    """They ended because a parent of theirs was killed, most likely by themselves."""


class MemberLost(MemberEvent, frozen=True, kw_only=True, tag=True):
    """It was evicted, or its node is gone: not its own fault, whatever its exit code."""

    reason: str = ""
    is_preempted: bool = False
    """The scheduler took its place away."""
    is_held_against: bool = False
    """Its node died while it ran there, and it may have brought the node down."""


Event = (
    Submitted
    | Commanded
    | Resized
    | Held
    | Changed
    | Deleted
    | Stranded
    | OthersChanged
    | ArrayTasksChanged
    | MemberRan
    | MemberExited
    | MemberLost
)
