"""Gangs as the scheduler reads them: a podgroup each, and a task for every member."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from phalanx.batch.specs import Amounts, Labels, PodGroupSpec, Shape, TaskSpec
from phalanx.head.gangs.gang import (
    ABSENT,
    DONE,
    HOLDING,
    LEAVING,
    NAMESPACE,
    ROLE,
    Gang,
)
from phalanx.head.jobs.podgroup import podgroup_of
from phalanx.manifests.quantities import batch_amounts
from phalanx.manifests.shapes import shape_of
from phalanx.model.jobs.records import JobRecord

RecordOf = Callable[[str], JobRecord | None]


class PodGroups:
    """Makes specs. All members that ask for the same share one shape, so that every question about
    them is asked once."""

    def __init__(self) -> None:
        self.record_of: RecordOf = lambda uid: None
        """A job by its name."""
        self._plain: dict[tuple[Amounts, Labels], Shape] = {}
        self._of_groups: dict[str, dict[tuple[str, int | None], Shape]] = {}
        self._same: dict[Shape, Shape] = {}

    def podgroup(self, gang: Gang) -> PodGroupSpec:
        """The gang; members that are over need no place any more."""
        record = self.record_of(gang.job) if gang.job else None
        if record is not None:
            found = podgroup_of(record, gang.priority)
            return msgspec.structs.replace(found, promised=gang.is_promised)
        over = len(gang.among(DONE))
        return PodGroupSpec(
            name=gang.name,
            namespace=gang.namespace,
            queue=gang.queue,
            min_member=max(gang.least - over, 0),
            priority=gang.priority,
            topology=gang.topology,
            created=gang.created,
            started=gang.started,
            promised=gang.is_promised,
        )

    def tasks(self, gang: Gang, nodes: list[str]) -> Iterator[TaskSpec]:
        """Every member that wants, has or gives back a place; `nodes` by member."""
        for index, state in enumerate(gang.states):
            node = nodes[index] if state in HOLDING else ""
            if state in (DONE, ABSENT) or (state in HOLDING and not node):
                continue  # of the latter the node is gone, and they are not to get another one yet
            phase = "Pending"
            if node:
                phase = "Releasing" if state == LEAVING else "Running"
            yield TaskSpec(
                name=gang.task(index).partition("/")[2],
                podgroup=gang.name,
                shape=self._shape(gang, index),
                node=node,
                phase=phase,
                priority=gang.priority,
                created=gang.created,
                started=gang.started if node else None,
            )

    def forget(self, gang: Gang) -> None:
        """It is over."""
        self._of_groups.pop(gang.job, None)

    def _shape(self, gang: Gang, index: int) -> Shape:
        record = self.record_of(gang.job) if gang.job else None
        if record is not None:
            return self._of_job(record, *gang.members[index])
        request = batch_amounts(gang.needs[index])
        key = (request, gang.selector)
        shape = self._plain.get(key)
        if shape is None:
            shape = Shape(request=request, role=ROLE, selector=gang.selector, namespace=NAMESPACE)
            self._plain[key] = shape
        return shape

    def _of_job(self, record: JobRecord, name: str, index: int) -> Shape:
        known = self._of_groups.setdefault(record.uid, {})
        group = record.spec.group(name)
        assert group is not None
        part = index // group.partition.size if group.partition else None
        shape = known.get((name, part))
        if shape is None:
            shape = shape_of(record.spec, group, part)
            if part is None and not group.template.placement and not group.template.labels:
                # Labels of its own making set it apart from equal ones, and nobody asks for them.
                shape = msgspec.structs.replace(shape, labels=())
            shape = known[name, part] = self._same.setdefault(shape, shape)
        return shape
