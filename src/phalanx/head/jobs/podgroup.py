"""A job as scheduling sees it: its podgroup."""

from __future__ import annotations

from phalanx.batch.specs import PodGroupSpec, SubgroupPolicy
from phalanx.head.jobs.judging import gang_minimum, group_minimum
from phalanx.manifests.shapes import GROUP_LABEL, PARTITION_LABEL
from phalanx.model.jobs import states as st
from phalanx.model.jobs.records import JobRecord
from phalanx.model.jobs.spec import TaskGroup


def podgroup_of(job: JobRecord, priority: int = 0, phase: str = "Pending") -> PodGroupSpec:
    """The gang that must be placed together now. Members that wait for other groups do not count,
    and a group of which members have ended needs so many fewer."""
    minimums = []
    for group in job.spec.groups:
        ended = job.count(st.SUCCEEDED, st.FAILED, group=group.name)
        minimums.append((group.name, max(group_minimum(job, group) - ended, 0)))
    ended = job.count(st.SUCCEEDED, st.FAILED)
    return PodGroupSpec(
        name=job.spec.name,
        namespace=job.spec.namespace,
        queue=job.spec.queue,
        min_member=max(gang_minimum(job) - ended, 0),
        min_task_member=tuple((name, minimum) for name, minimum in minimums if minimum),
        priority=priority,
        priority_class=job.spec.priority_class,
        phase=phase,
        annotations=job.spec.annotations,
        topology=job.spec.topology,
        subgroups=tuple(_partitions(g) for g in job.spec.groups if g.partition is not None),
        created=job.submitted,
        started=job.started,
    )


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
