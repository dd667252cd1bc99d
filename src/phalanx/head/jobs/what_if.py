"""Hypothetical changes of a cluster, in the form in which people write them, and the expected
starts under these changes.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from phalanx.head.jobs.podgroup import podgroup_of
from phalanx.manifests.findings import ManifestError
from phalanx.manifests.quantities import batch_amounts
from phalanx.manifests.reading import read_checked
from phalanx.manifests.shapes import shape_of
from phalanx.manifests.sizes import read_amount
from phalanx.model.jobs.records import new_job
from phalanx.model.jobs.spec import JobSpec
from phalanx.model.lifecycle import DEAD
from phalanx.model.nearest import nearest
from phalanx.model.rows.cluster import NodeInfo
from phalanx.scheduler.cycle.specs import Snapshot, TaskSpec
from phalanx.scheduler.forecast.what_if import (
    HOSTNAME,
    Comparison,
    Submission,
    compare,
    with_nodes,
    with_nodes_of,
    with_weight,
    without_nodes,
)

NODES = "COUNT:NODE (like that node), or COUNT:CPU=64,GPU=8,memory=512Gi"


class Supposition(msgspec.Struct, frozen=True, kw_only=True):
    """Hypothetical changes, all made together."""

    add_nodes: tuple[str, ...] = ()
    """Nodes to add. Each text is COUNT:NODE, for nodes like the node NODE, or COUNT:NAME=AMOUNT,...
    """
    remove_nodes: tuple[str, ...] = ()
    weights: tuple[str, ...] = ()
    """Weights to change, each as QUEUE=N."""
    manifests: tuple[tuple[str, bytes], ...] = ()
    """Manifests to add, each as (name for errors, text). Their jobs wait with the cluster's jobs.
    """
    consolidates: bool = False
    """Whether running work is moved, as by the action consolidate."""

    @property
    def is_empty(self) -> bool:
        """Whether no change is supposed."""
        return self == Supposition()


def with_ids(supposed: Supposition, nodes: Iterable[NodeInfo]) -> Supposition:
    """Return the changes with ids of nodes in place of names of nodes.

    `nodes`: the cluster's nodes. Raises ValueError for a name that means no node or several nodes.
    """
    living = [row for row in nodes if row.state != DEAD]
    return msgspec.structs.replace(
        supposed,
        add_nodes=tuple(_like_an_id(one, living) for one in supposed.add_nodes),
        remove_nodes=tuple(_id_of(one, living) for one in supposed.remove_nodes),
    )


def _like_an_id(written: str, nodes: list[NodeInfo]) -> str:
    count, _, what = written.partition(":")
    is_name = bool(what) and "=" not in what
    return f"{count}:{_id_of(what, nodes)}" if is_name else written


def _id_of(name: str, nodes: list[NodeInfo]) -> str:
    ids = [row.node_id for row in nodes if name in (row.name, row.hostname)]
    if len(ids) == 1:
        return ids[0]
    if len(ids) > 1:
        raise ValueError(f"{name!r} is the name of {len(ids)} nodes; name one by its id")
    if any(row.node_id.startswith(name) or row.labels.get(HOSTNAME) == name for row in nodes):
        return name
    known = sorted({row.name or row.hostname for row in nodes})
    some = ", ".join(known[:5]) + (f", and {len(known) - 5} more" if len(known) > 5 else "")
    near = nearest(name, known) or f"; known: {some or 'none'}"
    raise ValueError(f"there is no node {name!r}{near}")


def suppose(snapshot: Snapshot, supposed: Supposition) -> Comparison:
    """Return a comparison of the expected starts of waiting work: in the cluster as it is, and in
    the cluster with the changes. Raises ValueError for changes that are not possible.
    """
    after = without_nodes(snapshot, supposed.remove_nodes)
    for one in supposed.add_nodes:
        after = _with_nodes(after, one)
    for one in supposed.weights:
        queue, _, number = one.rpartition("=")
        if not queue or not number.removeprefix("-").isdecimal() or len(number) > 12:
            raise ValueError(f"weight {one!r}: expected QUEUE=N, such as research=5")
        after = with_weight(after, queue, int(number))
    submissions = [job for name, text in supposed.manifests for job in _jobs(after, name, text)]
    return compare(snapshot, after, submissions, moves=supposed.consolidates)


def _with_nodes(snapshot: Snapshot, written: str) -> Snapshot:
    """Return the snapshot with more nodes. Raises ValueError for text in neither of the forms of
    `add_nodes`.
    """
    count, _, what = written.partition(":")
    if not count.isdecimal() or len(count) > 12 or not what:
        raise ValueError(f"nodes to add {written!r}: {NODES}")
    if "=" not in what:
        return with_nodes(snapshot, int(count), what)
    amounts = {}
    for part in what.split(","):
        name, _, amount = part.partition("=")
        if not name.strip() or read_amount(name.strip(), amount) < 0:
            raise ValueError(
                f"nodes to add {written!r}: {part!r} is not NAME=AMOUNT with an amount "
                "of at least 0"
            )
        amounts[name.strip()] = read_amount(name.strip(), amount)
    return with_nodes_of(snapshot, int(count), batch_amounts(amounts))


def _jobs(snapshot: Snapshot, name: str, text: bytes) -> list[Submission]:
    """Return the jobs of a manifest as they would wait. Raises ValueError for an unknown queue.

    A job gets the priority that its manifest states as a number: the priority classes are not known
    here.
    """
    try:
        manifests, _ = read_checked(text, name)
    except ManifestError as error:
        raise ValueError(str(error)) from None
    jobs = [one.spec for one in manifests if isinstance(one.spec, JobSpec)]
    if not jobs:
        raise ValueError(f"{name}: it contains no job")
    queues = {queue.name for queue in snapshot.queues}
    known = {group.uid for group in snapshot.podgroups}
    for job in jobs:
        if job.queue not in queues:
            raise ValueError(
                f"{name}: job {job.name} names the queue {job.queue!r}, which does not exist"
            )
        if f"{job.namespace}/{job.name}" in known:
            raise ValueError(f"{name}: job {job.namespace}/{job.name} exists already")
    return [_submission(job, snapshot.now) for job in jobs]


def _submission(job: JobSpec, now: float) -> Submission:
    tasks = [
        TaskSpec(
            name=f"{job.name}-{group.name}-{index}",
            podgroup=job.name,
            shape=shape_of(job, group, index // group.partition.size if group.partition else None),
            priority=job.priority,
            created=now,
        )
        for group in job.groups
        for index in range(group.replicas)
    ]
    podgroup = podgroup_of(new_job(job, now), job.priority)
    return Submission(podgroup=podgroup, tasks=tuple(tasks))
