"""Jobs as people see them: a row of a list, and all about one."""

from __future__ import annotations

import msgspec

from phalanx.head.gangs.gang import Gang
from phalanx.head.jobs.judging import gang_minimum
from phalanx.model.jobs import states as st
from phalanx.model.jobs.records import JobRecord
from phalanx.model.rows.work import (
    JobDescription,
    JobInfo,
    LogFile,
    MemberInfo,
    TransitionInfo,
)

KINDS = ("mpi", "pytorch", "tensorflow", "ray")


def job_row(job: JobRecord, priority: int, now: float) -> JobInfo:
    """Volcano's columns, and the queue, the priority and the reason."""
    return JobInfo(
        name=job.spec.name,
        namespace=job.spec.namespace,
        queue=job.spec.queue,
        state=job.state,
        reason=job.reason,
        kind=next((kind for kind in KINDS if job.spec.plugin(kind) is not None), "batch"),
        replicas=job.spec.replicas,
        min=gang_minimum(job),
        pending=job.count(st.PENDING, st.WAITING),
        running=job.count(st.RUNNING, st.TERMINATING),
        succeeded=job.count(st.SUCCEEDED),
        failed=job.count(st.FAILED),
        retries=job.retries,
        priority=priority,
        position=None,
        expected_start=None,
        submitted=job.submitted,
        started=job.started,
        finished=job.finished,
        age_s=now - job.submitted,
        annotations=dict(job.spec.annotations),
    )


def job_description(
    job: JobRecord,
    priority: int,
    now: float,
    gang: Gang | None,
    logs: dict[str, list[tuple[str, str]]],
) -> JobDescription:
    """A job with its members and its history."""
    places = {} if gang is None else {(m.of_group, m.index): m.devices for m in gang.members}
    members = [
        MemberInfo(
            name=member.name,
            state=member.state,
            attempt=member.attempt,
            node=member.node,
            devices=places.get((member.group, member.index), {}) if member.node else {},
            exit_code=member.exit_code,
            reason=member.reason,
            started=member.started,
            ended=member.ended,
            logs=[LogFile(node=node, path=path) for node, path in logs.get(member.name, ())],
        )
        for member in job.members
    ]
    return JobDescription(
        **job_row(job, priority, now),
        ports=[] if gang is None else gang.ports,
        preempted=0 if gang is None else gang.preempted,
        members=members,
        history=[TransitionInfo(**msgspec.structs.asdict(one)) for one in job.history],
    )
