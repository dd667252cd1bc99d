"""What of a job may change while it lives: its size and its priority."""

from __future__ import annotations

import msgspec

from phalanx.manifests.queue_rules import Fault
from phalanx.model.jobs.spec import JobSpec

CHANGEABLE = "minAvailable, priorityClassName, and the tasks' replicas and minAvailable"


def update_faults(old: JobSpec, new: JobSpec) -> list[Fault]:
    """What speaks against turning `old` into `new`."""
    before, after = [g.name for g in old.groups], [g.name for g in new.groups]
    if before != after:
        reason = f"tasks are neither added nor removed nor moved: {before} became {after}"
        return [Fault(("spec", "tasks"), "update_tasks_changed", reason)]
    if old == _with_changes(old, new):
        return []
    reason = f"of a job that lives only {CHANGEABLE} may change"
    changed = [f for f in _FIELDS if getattr(old, f) != getattr(_with_changes(old, new), f)]
    return [Fault(("spec",), "update_forbidden_field", f"{reason}, not {', '.join(changed)}")]


_FIELDS = tuple(f.name for f in msgspec.structs.fields(JobSpec))


def _with_changes(old: JobSpec, new: JobSpec) -> JobSpec:
    """`new` with everything that may change set back to what it was."""
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
