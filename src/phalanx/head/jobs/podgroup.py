"""A job as the scheduler reads it: its podgroup, and the gang that is made for it."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from phalanx.head.gangs.gang import Gang, Member
from phalanx.head.gangs.member_states import ABSENT, WAITING
from phalanx.head.jobs.environment import ports_needed
from phalanx.head.jobs.judging import gang_minimum, minimums
from phalanx.head.jobs.time_limits import waits_since
from phalanx.manifests.shapes import GROUP_LABEL, PARTITION_LABEL
from phalanx.model.ids import GangId
from phalanx.model.jobs import states as st
from phalanx.model.jobs.records import JobRecord
from phalanx.model.jobs.spec import JobSpec, Pairs, TaskGroup
from phalanx.model.jobs.timing import PREEMPTED
from phalanx.scheduler.cycle.move_terms import MOVABLE
from phalanx.scheduler.cycle.specs import PodGroupSpec, SubgroupPolicy

_encode = msgspec.msgpack.Encoder(order="sorted").encode


def podgroup_of(job: JobRecord, priority: int = 0, phase: str = "Pending") -> PodGroupSpec:
    """Return the podgroup whose members must be placed together now. Members that wait for other
    groups do not count. Each ended member reduces the number that its group needs.
    """
    of_all, of_groups = minimums(job)
    left = [
        (group.name, (minimum or 0) - job.count(st.SUCCEEDED, st.FAILED, group=group.name))
        for group, minimum in zip(job.spec.groups, of_groups, strict=True)
    ]
    limit_s = job.spec.timing.limit_s  # the limit counts from the last start
    return PodGroupSpec(
        name=job.spec.name,
        namespace=job.spec.namespace,
        queue=job.spec.queue,
        min_member=max(of_all - job.count(st.SUCCEEDED, st.FAILED), 0),
        min_task_member=tuple((name, minimum) for name, minimum in left if minimum > 0),
        priority=priority,
        priority_class=job.spec.priority_class,
        phase=phase,
        annotations=_annotations(job.spec),
        topology=job.spec.topology,
        subgroups=tuple(_partitions(g) for g in job.spec.groups if g.partition is not None),
        created=waits_since(job),
        user=job.spec.user,
        run_time_s=limit_s,
        started=job.started if limit_s is None else job.run_started,
        reservation=job.spec.reservation,
        licenses=job.spec.licenses,
    )


def _annotations(spec: JobSpec) -> Pairs:
    """Return the job's annotations. If the job ends when it is preempted, leave out the annotation
    that allows moving the job.
    """
    rule = spec.timing.requeue
    if rule is None or PREEMPTED in rule.reasons:
        return spec.annotations
    return tuple(one for one in spec.annotations if one[0] != MOVABLE)


def min_member_of(job: JobRecord) -> int:
    """Return the minimum of the job's podgroup. This costs less than to make the whole podgroup,
    and the minimum is needed after every change of a member.
    """
    return max(gang_minimum(job) - job.count(st.SUCCEEDED, st.FAILED), 0)


def _partitions(group: TaskGroup) -> SubgroupPolicy:
    partition = group.partition
    assert partition is not None
    return SubgroupPolicy(
        name=group.name,
        match_label_keys=(GROUP_LABEL, PARTITION_LABEL),
        size=partition.size,
        minimum=partition.minimum,
        topology=partition.topology,
    )


def gang_of(job: JobRecord, group: GangId, priority: int, wanted: set[tuple[str, int]]) -> Gang:
    """Return a new gang with all members of a job. Members outside of `wanted` are absent for
    now.
    """
    spec = job.spec
    members = [(m.group, m.index) for m in job.members]
    need = ports_needed(spec)
    return Gang(
        gang_id=group,
        name=spec.name,
        namespace=spec.namespace,
        queue=spec.queue,
        priority=priority,
        min_members=0,
        members=members_of(spec, members, wanted),
        creator=b"",
        created=waits_since(job),
        port_count=need.gang + need.member * len(members),
        grace_s=max((group.template.grace_s for group in spec.groups), default=0.0),
        user=spec.user,
        job=job.uid,
        revision=job.revision,
        kind=kind_of(spec, priority, members),
    )


def members_of(
    spec: JobSpec, keys: Iterable[tuple[str, int]], wanted: set[tuple[str, int]]
) -> list[Member]:
    """Return the gang's members for these members of a job. Members outside of `wanted` are absent
    for now.
    """
    needs = {group.name: group.template.needs for group in spec.groups}
    return [
        Member(
            need=needs[name],
            state=WAITING if (name, index) in wanted else ABSENT,
            of_group=name,
            index=index,
        )
        for name, index in keys
    ]


def kind_of(spec: JobSpec, priority: int, members: list[tuple[str, int]]) -> bytes:
    """Return the kind of a job's gang, as bytes. Two jobs have equal kinds if, for the scheduler,
    they differ only in their names and ages.
    """
    if any(group.template.placement for group in spec.groups):
        return spec.uid.encode()
    asked = [
        (g.name, g.replicas, g.min_available, g.template.needs, g.depends_on, g.partition)
        for g in spec.groups
    ]
    whole = (
        *(spec.min_available, spec.topology, spec.annotations, spec.timing.limit_s),
        *(spec.user if spec.reservation else "", spec.reservation, spec.licenses),
    )
    return _encode((spec.queue, priority, asked, whole, members))
