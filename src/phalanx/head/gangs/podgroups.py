"""Gangs as the scheduler reads them: one podgroup each, with a task for every member."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from phalanx.head.gangs.gang import NAMESPACE, ROLE, Gang, ended_count
from phalanx.head.jobs.podgroup import min_member_of, podgroup_of
from phalanx.manifests.quantities import batch_amounts
from phalanx.manifests.shapes import shape_of
from phalanx.model.jobs import states as st
from phalanx.model.jobs.records import JobRecord
from phalanx.scheduler.cycle.specs import Amounts, Labels, PodGroupSpec, Shape, TaskSpec
from phalanx.scheduler.devices.sets import ResourceSet

RecordOf = Callable[[str], JobRecord | None]


class PodGroups:
    """Makes specs of podgroups and tasks. Members with equal requests share one shape, so that each
    check of a shape is made once for all of them.
    """

    def __init__(self) -> None:
        self.record_of: RecordOf = lambda uid: None
        """Returns a job by its name."""
        self.tried: Callable[[Gang], Mapping[str, ResourceSet]] = lambda gang: {}
        """Returns the resources that nodes recently refused to a gang, by node."""
        self._plain: dict[tuple[Amounts, Labels], Shape] = {}
        self._of_jobs: dict[str, dict[tuple[str, int | None], Shape]] = {}
        self._same: dict[Shape, Shape] = {}

    def podgroup(self, gang: Gang) -> PodGroupSpec:
        """Return the gang's podgroup, without ended members."""
        record = self._record_of(gang)
        if record is not None:
            found = podgroup_of(record, gang.priority)
            return msgspec.structs.replace(
                found,
                # not the job's value, which may already be that for its next gang
                queue=gang.queue,
                promised=gang.is_promised,
                port_count=gang.port_count,
                ports=tuple(gang.ports),
                tried=self._tried(gang),
            )
        return PodGroupSpec(
            name=gang.name,
            namespace=gang.namespace,
            queue=gang.queue,
            min_member=self.min_member(gang),
            priority=gang.priority,
            topology=gang.topology,
            created=gang.created,
            user=gang.user,
            started=gang.started,
            promised=gang.is_promised,
            port_count=gang.port_count,
            ports=tuple(gang.ports),
            tried=self._tried(gang),
        )

    def min_member(self, gang: Gang) -> int:
        """Return how many members must still have places: the minimum less the members that have
        ended.
        """
        record = self._record_of(gang)
        if record is not None:
            return min_member_of(record)
        return max(gang.min_members - ended_count(gang), 0)

    def _tried(self, gang: Gang) -> tuple[tuple[str, Amounts], ...]:
        refused = sorted(self.tried(gang).items())
        return tuple((node, batch_amounts(amounts.to_mapping())) for node, amounts in refused)

    def task(self, gang: Gang, index: int) -> TaskSpec:
        """Return the task for a member that waits for its place."""
        return TaskSpec(
            name=gang.task(index).partition("/")[2],
            podgroup=gang.name,
            shape=self.shape(gang, index),
            priority=gang.priority,
            created=gang.created,
        )

    def is_live(self, gang: Gang, index: int) -> bool:
        """Whether a member that has its place counts for the gang's minimum. A member that its job
        is ending does not count, because the job may restart it.
        """
        record = self._record_of(gang)
        if record is None:
            return True
        member = gang.members[index]
        known = record.member(member.of_group, member.index)
        return known is not None and known.state in (st.PENDING, st.RUNNING)

    def forget(self, gang: Gang) -> None:
        """Forget the shapes of a gang that is over."""
        self._of_jobs.pop(gang.job, None)

    def _record_of(self, gang: Gang) -> JobRecord | None:
        return self.record_of(gang.job) if gang.job else None

    def shape(self, gang: Gang, index: int) -> Shape:
        """Return the shape of a member's request."""
        record = self._record_of(gang)
        if record is not None:
            return self._of_job(record, gang.members[index].of_group, gang.members[index].index)
        request = batch_amounts(gang.members[index].need)
        key = (request, gang.selector)
        shape = self._plain.get(key)
        if shape is None:
            shape = Shape(request=request, role=ROLE, selector=gang.selector, namespace=NAMESPACE)
            self._plain[key] = shape
        return shape

    def _of_job(self, record: JobRecord, name: str, index: int) -> Shape:
        known = self._of_jobs.setdefault(record.uid, {})
        group = record.spec.group(name)
        assert group is not None
        part = index // group.partition.size if group.partition else None
        shape = known.get((name, part))
        if shape is None:
            shape = shape_of(record.spec, group, part)
            if part is None and not group.template.placement and not group.template.labels:
                # The job's own labels are left out: they would make equal jobs differ, and no rule
                # uses them.
                shape = msgspec.structs.replace(shape, labels=())
            shape = known[name, part] = self._same.setdefault(shape, shape)
        return shape
