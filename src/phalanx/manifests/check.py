"""Checks of whole files: each object is checked by itself, and against the existing queues."""

from __future__ import annotations

from functools import lru_cache
from graphlib import TopologicalSorter
from typing import Literal

import msgspec

from phalanx.manifests.dependencies import others
from phalanx.manifests.fields import Fields, written
from phalanx.manifests.findings import Fault, Finding, ManifestError, Report
from phalanx.manifests.graphs import find_cycle
from phalanx.manifests.hypernodes import HyperNode
from phalanx.manifests.job_rules import job_faults, update_faults
from phalanx.manifests.jobs import GROUPS_OF_PODS
from phalanx.manifests.names import object_fault
from phalanx.manifests.patterns import pattern_fault
from phalanx.manifests.queue_rules import (
    KnownQueue,
    QueueTree,
    delete_faults,
    queue_faults,
    submit_faults,
)
from phalanx.manifests.reading import Manifest, Spec, object_errors, read_manifests
from phalanx.manifests.writing import as_data
from phalanx.model.jobs.spec import CronSpec, JobSpec, Process, TaskGroup
from phalanx.scheduler.cycle.specs import PodGroupSpec, QueueSpec

LIKENESSES = 1_000
"""The largest number of valid jobs that are remembered. Jobs that differ only in their names and
commands count as one job.
"""
LIKENESS_BYTES = 10_000
"""The size in bytes above which a job is not remembered, and so is checked again each time. This
limits the memory for remembered jobs.
"""
Operation = Literal["create", "update", "delete"]


def check_manifests(
    text: str | bytes,
    *,
    queues: QueueTree | None = None,
    old: str | bytes | None = None,
    operation: Operation = "create",
    file: str = "",
) -> tuple[list[Manifest], Report]:
    """Return the objects of a file and all findings about them.

    With `queues`, objects are also checked against the existing queues and the queues that come
    earlier in the file. For an update, `old` has the present objects.
    """
    manifests, report = read_manifests(text, file)
    before = {m.object: m for m in read_manifests(old, file)[0]} if old is not None else {}
    if old is not None and operation == "create":
        operation = "update"
    tree = queues
    for manifest in manifests:
        known = before.get(manifest.object)
        for fault in _faults(manifest, known, tree, operation):
            report.errors.append(_located(fault, manifest))
        if tree is not None and isinstance(manifest.spec, QueueSpec) and operation != "delete":
            mine = KnownQueue(spec=manifest.spec)
            kept = [q for n, q in tree.by_name.items() if n != manifest.name]
            tree = QueueTree([*kept, mine])
    return manifests, report


def others_first(manifests: list[Manifest]) -> list[Manifest]:
    """Return the manifests in the order of the file, except that a job comes after the jobs on
    which it depends.
    """
    order = TopologicalSorter(_awaited(manifests)).static_order()
    rank = {uid: number for number, uid in enumerate(order)}
    found = [(rank[spec.uid], m) for m in manifests if (spec := _job(m)) is not None]
    jobs = iter(sorted(found, key=lambda pair: pair[0]))
    return [m if _job(m) is None else next(jobs)[1] for m in manifests]


def _job(manifest: Manifest) -> JobSpec | None:
    spec = manifest.spec
    return spec if manifest.kind == "Job" and isinstance(spec, JobSpec) else None


def _awaited(manifests: list[Manifest]) -> dict[str, list[str]]:
    """Return, for each job of the file, the other jobs of the file on which it depends."""
    specs = [spec for m in manifests if (spec := _job(m)) is not None]
    there = {spec.uid for spec in specs}
    return {spec.uid: [uid for uid in others(spec.after) if uid in there] for spec in specs}


def read_for_submit(text: str | bytes, file: str = "") -> tuple[list[Manifest], list[Finding]]:
    """Return the objects of a file that is to be submitted, and the warnings about them.

    A Pod becomes a job of one member. Raises ManifestError for any error. Errors include a job that
    would run nothing, and a Pod that belongs to a PodGroup.
    """
    manifests, report = read_manifests(text, file)
    if report.ok:
        report.errors += [_located(fault, m) for m in manifests for fault in _pod_faults(m)]
        check_new_jobs(manifests, report)
    if not report.ok:
        raise ManifestError(report.errors, file)
    return [_as_job(manifest) for manifest in manifests], report.warnings


def _pod_faults(manifest: Manifest) -> list[Fault]:
    spec = manifest.spec
    if manifest.kind != "Pod" or not isinstance(spec, JobSpec):
        return []
    found = [key for key in GROUPS_OF_PODS if key in dict(spec.annotations)]
    reason = "a Pod of a PodGroup does not run alone; write a Job, whose members start together"
    return [Fault(("metadata", "annotations", key), "pod_of_group", reason) for key in found]


def _as_job(manifest: Manifest) -> Manifest:
    return msgspec.structs.replace(manifest, kind="Job") if manifest.kind == "Pod" else manifest


def check_new_jobs(manifests: list[Manifest], report: Report) -> None:
    """Add to the report the faults for which Phalanx refuses a job that Volcano accepts, such as a
    job that would run nothing.

    Volcano accepts that job, because its image may have a command.
    """
    found: list[Finding] = []
    for manifest in manifests:
        spec = manifest.spec
        if isinstance(spec, JobSpec):
            faults = job_faults(spec)
            if manifest.kind == "Pod":  # a Pod has no tasks
                faults = [Fault(("spec",), fault.code, fault.reason) for fault in faults]
            found += [_located(fault, manifest) for fault in faults]
        elif isinstance(spec, CronSpec):
            found += [_located(_inside(fault), manifest) for fault in job_faults(spec.job)]
    if ring := find_cycle(_awaited(manifests)):
        first = next(m for m in manifests if (spec := _job(m)) is not None and spec.uid == ring[0])
        reason = f"after: jobs wait for each other in a cycle: {' -> '.join(ring)}"
        found.append(_located(Fault(("spec", "after"), "after_circular", reason), first))
    report.errors += found
    refused = {(one.object, one.code) for one in found}
    report.warnings = [w for w in report.warnings if (w.object, w.code) not in refused]


def object_faults(kind: str, spec: Spec) -> list[str]:
    """Return the reasons why a manifest with this object would be refused. Programs
    submit objects that were not read from a manifest.
    """
    namespace = getattr(spec, "namespace", "")
    fault = object_fault(kind, spec.name, namespace)
    if fault is not None:
        return [fault]
    job = spec.job if isinstance(spec, CronSpec) else spec
    reasons = [fault.reason for fault in job_faults(job)] if isinstance(job, JobSpec) else []
    if isinstance(spec, HyperNode):
        reasons += filter(None, (pattern_fault(member.pattern) for member in spec.members))
    if not (isinstance(spec, JobSpec) and _reads_well(kind, spec)):
        reasons += _reading_faults(kind, spec)
    return list(dict.fromkeys(reasons))


def _reading_faults(kind: str, spec: Spec) -> list[str]:
    """Return the faults that are found when the object is written as a manifest and this manifest
    is read.
    """
    namespace = getattr(spec, "namespace", "")
    try:
        data = as_data(Manifest(kind=kind, name=spec.name, namespace=namespace, spec=spec))
        return [finding.reason for finding in object_errors(data)]
    except (ValueError, OverflowError) as error:
        return [f"a length of time must be a number of seconds: {error}"]


_encode = msgspec.msgpack.Encoder().encode


def _reads_well(kind: str, job: JobSpec) -> bool:
    """Whether a job is known to have no faults. The answer is remembered for all jobs that are like
    it; for a job too large to be remembered, it is False.

    Jobs that are submitted together are often alike, and reading is most of the cost of accepting a
    job.
    """
    likeness = _encode(_likeness(job))
    return len(likeness) <= LIKENESS_BYTES and _likeness_reads_well(kind, likeness)


@lru_cache(maxsize=LIKENESSES)
def _likeness_reads_well(kind: str, likeness: bytes) -> bool:
    return not _reading_faults(kind, msgspec.msgpack.decode(likeness, type=JobSpec))


def _likeness(job: JobSpec) -> JobSpec:
    """Return the job without the parts in which reading finds no faults: the words of its commands,
    and its name, which `job_faults` checks.
    """
    return msgspec.structs.replace(job, name="x", groups=tuple(map(_without_words, job.groups)))


def _without_words(group: TaskGroup) -> TaskGroup:
    template = msgspec.structs.replace(
        group.template,
        processes=tuple(map(_wordless, group.template.processes)),
        before=tuple(map(_wordless, group.template.before)),
    )
    return msgspec.structs.replace(group, template=template)


def _wordless(process: Process) -> Process:
    return msgspec.structs.replace(
        process,
        command=("x",) if process.command else (),
        args=("x",) if process.args else (),
        env=tuple((name, "") for name, _ in process.env),
        working_dir="",
    )


def _faults(
    manifest: Manifest, known: Manifest | None, tree: QueueTree | None, operation: Operation
) -> list[Fault]:
    spec = manifest.spec
    if operation == "delete":
        is_queue = isinstance(spec, QueueSpec) and tree is not None
        return delete_faults(manifest.name, tree) if is_queue and tree is not None else []
    if isinstance(spec, QueueSpec):
        old = known.spec if known is not None else tree.get(spec.name) if tree is not None else None
        return queue_faults(spec, tree, old if isinstance(old, QueueSpec) else None)
    if isinstance(spec, JobSpec) and manifest.kind == "Job":
        if operation == "update" and known is not None and isinstance(known.spec, JobSpec):
            return update_faults(known.spec, spec)
        return submit_faults(spec.queue, tree) if tree is not None else []
    if tree is None:
        return []
    if isinstance(spec, CronSpec):
        return [_inside(f) for f in submit_faults(spec.job.queue, tree)]
    if isinstance(spec, PodGroupSpec):
        # The group's tasks are not in this file. They may be in a queue below the group's queue.
        return [f for f in submit_faults(spec.queue, tree) if f.code != "queue_not_leaf"]
    return []


def _inside(fault: Fault) -> Fault:
    return Fault(("spec", "jobTemplate", *fault.path), fault.code, fault.reason)


def _located(fault: Fault, manifest: Manifest) -> Finding:
    at = manifest.fields
    base = at.path if isinstance(at, Fields) else ()
    path = (*base, *fault.path)
    return Finding(
        path=written(path),
        code=fault.code,
        reason=fault.reason,
        object=manifest.object,
        line=at.document.line(path) if isinstance(at, Fields) else None,
    )
