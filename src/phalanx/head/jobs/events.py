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
    """A new job was submitted by the request with this id. The same request may arrive twice."""

    spec: JobSpec
    request: bytes = b""


class Commanded(JobEvent, frozen=True, kw_only=True, tag=True):
    """A user's command: AbortJob suspends, ResumeJob resumes, and TerminateJob cancels the job."""

    action: str
    group: str = ""
    index: int = WHOLE
    reason: str = "by command"


class Resized(JobEvent, frozen=True, kw_only=True, tag=True):
    """The size or priority of the job was changed. `manifests.job_rules` defines the fields that
    may not change.
    """

    spec: JobSpec


class Held(JobEvent, frozen=True, kw_only=True, tag=True):
    """A user holds or releases the job. A held job waits until it is released."""

    is_held: bool


class Changed(JobEvent, frozen=True, kw_only=True, tag=True):
    """A user changes terms of a waiting job, such as its queue, priority, time limit, reservation
    or annotations.
    """

    spec: JobSpec


class Deleted(JobEvent, frozen=True, kw_only=True, tag=True):
    """A user deletes the job. If it is alive, it is ended first; then it is forgotten."""


class Stranded(JobEvent, frozen=True, kw_only=True, tag=True):
    """Some members run, and there is no room for the job's other members. The podgroup's phase is
    Unknown.
    """


class DependencyChanged(JobEvent, frozen=True, kw_only=True, tag=True):
    """A job for which this job waits has begun or ended."""


class ArrayTasksChanged(JobEvent, frozen=True, kw_only=True, tag=True):
    """Tasks of an array have begun or ended, or wait again. The array's record counts these changes
    already.
    """


class MemberEvent(JobEvent, frozen=True, kw_only=True, tag=True):
    """An event of one attempt of one member."""

    group: str
    index: int
    attempt: int


class MemberRan(MemberEvent, frozen=True, kw_only=True, tag=True):
    """The member's processes run on this node, and have run for this many seconds."""

    node: str = ""
    ran_s: float = 0.0


class MemberPrepares(MemberEvent, frozen=True, kw_only=True, tag=True):
    """The member's environment is being prepared on this node."""

    node: str = ""


class MemberExited(MemberEvent, frozen=True, kw_only=True, tag=True):
    """The member's processes ended on their own, or because they were asked to."""

    exit_code: int
    reason: str = ""
    signal: int = 0
    """The signal that ended the processes; 0 if no signal did."""
    is_parent_killed: bool = False
    """Whether the processes ended because a parent process was killed, most probably by the member
    itself.
    """
    is_unprepared: bool = False
    """Whether the processes did not begin because the member's environment could not be
    prepared.
    """


class MemberLost(MemberEvent, frozen=True, kw_only=True, tag=True):
    """The member was evicted, or its node is gone. The loss does not count as a failure, regardless
    of the exit code.
    """

    reason: str = ""
    is_preempted: bool = False
    """Whether the scheduler took the member's place."""
    is_held_against: bool = False
    """Whether the node died while the member ran there. The member may then have caused that death.
    """


Event = (
    Submitted
    | Commanded
    | Resized
    | Held
    | Changed
    | Deleted
    | Stranded
    | DependencyChanged
    | ArrayTasksChanged
    | MemberRan
    | MemberPrepares
    | MemberExited
    | MemberLost
)
