"""The shapes of members, in the scheduler's form: the amounts that a member requests, and the nodes
that it accepts.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

from phalanx.manifests.quantities import batch_amounts
from phalanx.model.jobs.spec import JobSpec, TaskGroup
from phalanx.scheduler.cycle.documents import Document, Place
from phalanx.scheduler.cycle.reading_tasks import ShapeReader
from phalanx.scheduler.cycle.specs import SLURM_NOTE, Shape

GROUP_LABEL = "volcano.sh/task-spec"
PARTITION_LABEL = "volcano.sh/partition-id"
JOB_LABEL = "volcano.sh/job-name"
SHAPES = 1_000
"""The largest number of shapes that are remembered. Shapes that differ only in their labels count
as one.
"""
_NOWHERE = Document("{}")


def read_shape(written: Mapping[str, Any]) -> Shape:
    """Return the shape that plain values (mappings, lists and numbers) describe. Raises
    BatchFileError that says what is wrong with them.
    """
    return ShapeReader().read(Place(_NOWHERE, (), dict(written)))


_encode = msgspec.msgpack.Encoder().encode


def _placing_notes(job: JobSpec) -> dict[str, str]:
    """Return the job's annotations except for the notes of `sbatch`, which differ from job to job
    and do not affect placement.
    """
    return {name: text for name, text in job.annotations if not name.startswith(SLURM_NOTE)}


@lru_cache(maxsize=SHAPES)
def _read(written: bytes) -> Shape:
    return read_shape(msgspec.msgpack.decode(written))


def shape_of(job: JobSpec, group: TaskGroup, partition: int | None = None) -> Shape:
    """Return the shape of a group's members. If the group has partitions, this is the shape of the
    members of one partition.
    """
    template, placing = group.template, group.template.placement
    labels = dict(template.labels) | {JOB_LABEL: job.name, GROUP_LABEL: group.name}
    if partition is not None:
        labels[PARTITION_LABEL] = str(partition)
    # The labels are left out: they contain the job's name, and many jobs should share a shape.
    asked = {
        "namespace": job.namespace,
        "request": dict(batch_amounts(template.needs)),
        "role": group.name,
        "annotations": _placing_notes(job) | dict(template.annotations),
        "ports": sorted({p.number for process in template.processes for p in process.ports}),
        "nodeSelector": placing.get("nodeSelector"),
        "tolerations": placing.get("tolerations"),
        "affinity": placing.get("affinity"),
        "topology_spread": placing.get("topologySpreadConstraints"),
    }
    return msgspec.structs.replace(_read(_encode(asked)), labels=tuple(sorted(labels.items())))
