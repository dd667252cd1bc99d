"""Rules for whole jobs: a job must run something, and only some of its fields may be changed
later.
"""

from __future__ import annotations

import msgspec

from phalanx.manifests.arrays import array_faults
from phalanx.manifests.dependencies import dependency_faults
from phalanx.manifests.findings import Fault
from phalanx.manifests.licenses import license_faults
from phalanx.manifests.names import free_fault, member_fault, object_fault
from phalanx.manifests.timing import timing_faults
from phalanx.model.jobs.spec import JobSpec
from phalanx.model.options import LARGEST_NUMBER, amount_fault
from phalanx.scheduler.cycle.move_terms import terms_fault

CHANGEABLE = "minAvailable, priorityClassName, and the tasks' replicas and minAvailable"


def update_faults(old: JobSpec, new: JobSpec) -> list[Fault]:
    """Return the reasons why a job `old` may not be changed to `new`."""
    before, after = [g.name for g in old.groups], [g.name for g in new.groups]
    if before != after:
        reason = f"tasks cannot be added, removed or moved: {before} became {after}"
        return [Fault(("spec", "tasks"), "update_tasks_changed", reason)]
    kept = _without_allowed_changes(old, new)
    if old == kept:
        return []
    reason = f"while a job lives, only {CHANGEABLE} may change"
    changed = [f for f in _FIELDS if getattr(old, f) != getattr(kept, f)]
    return [Fault(("spec",), "update_forbidden_field", f"{reason}, not {', '.join(changed)}")]


def job_faults(job: JobSpec) -> list[Fault]:
    """Return the faults of a new job: invalid names, amounts that no node can have, and task groups
    without a command. Such a group would complete without running anything.
    """
    faults = []
    if (fault := object_fault("Job", job.name, job.namespace)) is not None:
        faults.append(Fault(("metadata",), "name_invalid", fault))
    if abs(job.priority) > LARGEST_NUMBER:
        reason = f"a priority must be at most {LARGEST_NUMBER}, not {job.priority}"
        faults.append(Fault(("spec",), "priority_invalid", reason))
    faults += timing_faults(job.timing)
    faults += dependency_faults(job.after, job.uid)
    faults += array_faults(job.array)
    faults += license_faults(job.licenses)
    for field in ("user", "reservation"):
        if (fault := free_fault(field, getattr(job, field))) is not None:
            faults.append(Fault(("spec", field), f"{field}_invalid", fault))
    faults += _move_faults(job)
    if job.element is not None:
        reason = "array tasks are made by the head; give a job an array instead"
        faults.append(Fault(("spec",), "element_invalid", reason))
    for i, group in enumerate(job.groups):
        path = ("spec", "tasks", i, "template", "spec")
        template = group.template
        if (fault := member_fault(job.name, group.name, group.replicas)) is not None:
            faults.append(Fault(("spec", "tasks", i), "member_name_invalid", fault))
        for resource, amount in template.needs.items():
            if (allowed := amount_fault(resource, amount)) is not None:
                reason = f"each of {group.name!a} would hold {amount:g} of {resource}; allowed: "
                faults.append(Fault(path, "amount_not_held", reason + allowed))
        if job.plugin("ray") is not None:
            continue  # the ray plugin gives a command to processes without one
        if not template.processes:
            reason = f"task {group.name!a} runs nothing: give it a container with a command"
            faults.append(Fault(path, "no_command", reason))
        elif not all(process.argv for process in (*template.processes, *template.before)):
            reason = f"task {group.name!a} has a container without a command: it would run nothing"
            faults.append(Fault(path, "no_command", reason))
    return faults


def _move_faults(job: JobSpec) -> list[Fault]:
    """Return the fault of the annotations that say whether the job may be moved; an empty list if
    these annotations are valid.
    """
    wrong = terms_fault(job.annotations)
    if wrong is None:
        return []
    name, reason = wrong
    return [Fault(("metadata", "annotations", name), "annotation_invalid", f"{name}: {reason}")]


_FIELDS = tuple(f.name for f in msgspec.structs.fields(JobSpec))


def _without_allowed_changes(old: JobSpec, new: JobSpec) -> JobSpec:
    """Return `new` with the allowed changes undone: fields that may change have `old`'s values."""
    groups = tuple(
        msgspec.structs.replace(n, replicas=o.replicas, min_available=o.min_available)
        for o, n in zip(old.groups, new.groups, strict=True)
    )
    return msgspec.structs.replace(
        new,
        groups=groups,
        min_available=old.min_available,
        priority_class=old.priority_class,
    )
