"""Jobs as they are displayed: rows of a list, and all details of one job."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import msgspec

from phalanx.head.gangs.gang import Gang
from phalanx.head.jobs import resting, time_limits
from phalanx.head.jobs.array_tasks import Ended
from phalanx.head.jobs.judging import gang_minimum
from phalanx.manifests.arrays import written_array
from phalanx.manifests.dependencies import written_dependencies
from phalanx.model.jobs import states as st
from phalanx.model.jobs.arrays import array_task_name
from phalanx.model.jobs.records import JobRecord, MemberRecord
from phalanx.model.jobs.spec import JobSpec, TaskGroup, Template
from phalanx.model.rows.work import (
    JobDescription,
    JobInfo,
    LogFile,
    MemberInfo,
    RoleInfo,
    TransitionInfo,
)
from phalanx.scheduler.cycle.specs import PROGRAM_NOTE

DEFECT = "internal error of the head: "
"""The beginning of the reason of a job for which the head failed."""
_NOT_QUEUED = ("held", "dependency")
"""Codes of reasons for which a job does not count as waiting in its queue."""
GPU = "GPU"
_LONGEST = 2_000
"""The number of characters of a command that are shown."""
KINDS = ("mpi", "pytorch", "tensorflow", "ray")


def job_row(job: JobRecord, priority: int, now: float, ran_s: float | None = None) -> JobInfo:
    """Return a job's row: Volcano's columns, and its queue, priority, reason and times. `now`: the
    wall-clock time. `ran_s`: the gang's run time as it is shown; None for the record's.
    """
    held = time_limits.why_held_back(job, now)
    array = job.spec.array  # an array has no gang whose time could end
    is_timed = job.state in time_limits.TIMED and bool(job.count(st.RUNNING)) and array is None
    ran_s = job.ran_s if ran_s is None else ran_s
    left_s = time_limits.left_s(job, now, ran_s) if is_timed else None
    return JobInfo(
        name=job.spec.name,
        namespace=job.spec.namespace,
        queue=job.spec.queue,
        state=state_of(job),
        reason=_reason(job, now, held),
        kind="array" if job.spec.array is not None else _kind(job.spec),
        replicas=job.spec.replicas if array is None else array.count,
        min=gang_minimum(job) if held is None or array is not None else job.spec.min_available,
        pending=job.count(st.PENDING, st.WAITING, st.BLOCKED),
        running=job.count(st.RUNNING, st.TERMINATING),
        succeeded=job.count(st.SUCCEEDED),
        failed=job.count(st.FAILED),
        retries=job.retries,
        priority=priority,
        position=None,
        expected_start=None,
        submitted=job.submitted,
        recorded_as=job.submitted_in_history,
        started=job.started,
        finished=job.finished,
        age_s=now - job.submitted,
        time_limit_s=job.spec.timing.limit_s,
        ran_s=ran_s,
        ends=None if left_s is None else now + left_s,
        begins=time_limits.begins(job),
        deadline=time_limits.deadline_of(job),
        is_held=job.is_held,
        restarts=job.run_count,
        after=after_text(job),
        array=array_text(job),
        annotations=dict(job.spec.annotations),
        user=job.spec.user,
        reservation=job.spec.reservation,
        licenses=dict(job.spec.licenses),
        queued=_queued(job, held),
        gpus=_gpus(job.spec),
    )


def _kind(spec: JobSpec) -> str:
    if not spec.plugins:  # like most jobs, of which there may be thousands
        return "batch"
    return next((kind for kind in KINDS if spec.plugin(kind) is not None), "batch")


def _gpus(spec: JobSpec) -> float:
    total = 0.0
    for group in spec.groups:
        if _may_need_gpus(group.template):
            total += group.replicas * group.template.needs.get(GPU, 0.0)
    return total


def _may_need_gpus(template: Template) -> bool:
    """Whether members of this template may need GPUs. The answer is quicker to compute than the
    template's needs.
    """
    if template.annotations:
        return True
    for process in (*template.processes, *template.before):
        for name, _ in (*process.requests, *process.limits):
            if name == GPU or "/" in name:  # a Kubernetes name may mean GPUs, too
                return True
    return False


def why(job: JobRecord, now: float) -> str:
    """Return the field `reason` of a job's row."""
    return _reason(job, now, time_limits.why_held_back(job, now))


def queued(job: JobRecord, now: float) -> float | None:
    """Return the field `queued` of a job's row."""
    return _queued(job, time_limits.why_held_back(job, now))


def after_text(job: JobRecord) -> str:
    """Return the field `after` of a job's row."""
    return "" if job.spec.after is None else written_dependencies(job.spec.after)


def array_text(job: JobRecord) -> str:
    """Return the field `array` of a job's row."""
    return "" if job.spec.array is None else written_array(job.spec.array)


def _queued(job: JobRecord, held: time_limits.HeldBack | None) -> float | None:
    is_queued = held is None or held.code not in _NOT_QUEUED
    return time_limits.waits_since(job) if is_queued else None


def _reason(job: JobRecord, now: float, held: time_limits.HeldBack | None) -> str:
    """Return the reason that is shown for a job. It is the first of these that applies: why no
    member may start yet, that the environment is being prepared, why a crashed member rests in its
    place, and last the reason in the job's record.
    """
    if held is not None:
        return held.sentence
    if preparing := why_preparing(job):
        return preparing
    rests = resting.first(job, now)
    return job.reason if rests is None else f"{rests.name}: {_with_rest(rests, now)}"


def state_of(job: JobRecord) -> str:
    """Return the state of a job as it is shown."""
    if job.state != st.PENDING:
        return job.state
    for members in job.groups.values():  # listings ask for thousands of jobs
        for member in members:
            if member.is_preparing:
                return st.PREPARING
    return st.PENDING


def why_preparing(job: JobRecord) -> str:
    """Return the reason of a job that is shown as Preparing; "" for any other job."""
    if state_of(job) != st.PREPARING:
        return ""
    return f"its environment is being prepared: phalanx logs {job.spec.name} --preparing"


def _with_rest(member: MemberRecord, now: float) -> str:
    rests = resting.why_rests(member, now)
    return f"{member.reason}; {rests}" if rests else member.reason


def array_task_description(
    array: JobRecord, index: int, ended: Ended, now: float
) -> JobDescription:
    """Return the description of an array task that has ended or has not begun."""
    row = job_row(array, array.spec.priority, now)
    state = ended.state
    if state in (st.WAITING, st.BLOCKED):
        state = array.state if array.is_finished else st.PENDING
    members = [
        MemberInfo(
            name=name,
            state=st.SUCCEEDED if ended.state == st.COMPLETED else ended.state,
            attempt=ended.starts,
            node=files[-1][0] if files else "",
            devices={},
            exit_code=ended.exit_code,
            signal=ended.signal,
            reason="",
            started=None,
            ended=None,
            logs=[LogFile(node=node, path=path) for node, path in files],
        )
        for name, files in ended.logs.items()
    ]
    about = row.as_dict() | {
        "name": array_task_name(array.spec.name, index),
        "state": state,
        "kind": "batch",
        "reason": "" if state != st.PENDING else "it waits for its turn in the array",
        "replicas": array.spec.replicas,
        "array": "",
        "pending": int(state == st.PENDING),
        **dict.fromkeys(("running", "succeeded", "failed"), 0),
        "started": None,
        "finished": None,
        "expected_start": None,
    }
    return JobDescription(
        **about,
        ports=[],
        preempted=0,
        members=members,
        history=[],
        roles=_roles(array.spec),
    )


def _written(argv: Sequence[str]) -> str:
    """Return a command as a shell reads it; manifests write a dollar sign twice."""
    return shlex.join(word.replace("$$", "$") for word in argv)[:_LONGEST]


def _roles(spec: JobSpec) -> list[RoleInfo]:
    given = dict(spec.annotations).get(PROGRAM_NOTE, "")[:_LONGEST]
    return [
        RoleInfo(
            name=group.name,
            replicas=group.replicas,
            command=given if at == 0 and given else _commands(group),
            needs=group.template.needs,
        )
        for at, group in enumerate(spec.groups)
    ]


def _commands(group: TaskGroup) -> str:
    return "; ".join(_written(one.argv) for one in group.template.processes)


def job_description(
    job: JobRecord,
    priority: int,
    now: float,
    gang: Gang | None,
    logs: dict[str, list[tuple[str, str]]],
    ran_s: float | None = None,
) -> JobDescription:
    """Return a job with its members and its history. `now` and `ran_s` as in `job_row`."""
    places = {} if gang is None else {(m.of_group, m.index): m.devices for m in gang.members}
    members = [
        MemberInfo(
            name=member.name,
            state=st.PREPARING if member.is_preparing else member.state,
            attempt=member.attempt,
            node=member.node,
            devices=places.get((member.group, member.index), {}) if member.node else {},
            exit_code=member.exit_code,
            signal=member.signal,
            reason=_with_rest(member, now),
            started=member.started,
            ended=member.ended,
            logs=[LogFile(node=node, path=path) for node, path in logs.get(member.name, ())],
        )
        for member in job.members
    ]
    return JobDescription(
        **job_row(job, priority, now, ran_s),
        ports=[] if gang is None else gang.ports,
        preempted=0 if gang is None else gang.preempted,
        members=members,
        history=[TransitionInfo(**msgspec.structs.asdict(one)) for one in job.history],
        roles=_roles(job.spec),
    )
