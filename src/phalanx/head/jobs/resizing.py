"""Changes the size of a job: the replicas of its groups, and with them its members."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from phalanx.errors import JobCommandError
from phalanx.head.jobs import judging
from phalanx.model.jobs import states as st
from phalanx.model.jobs.records import JobRecord, MemberRecord
from phalanx.model.jobs.spec import MAX_REPLICAS, JobSpec, TaskGroup


def resized(spec: JobSpec, replicas: Mapping[str, int], least: int | None = None) -> JobSpec:
    """Return the job with these numbers of replicas for the named groups; "" stands for the job's
    only group.

    `least`: the number of members that must run together from now on; None to leave the minimums as
    they are. A minimum that is larger than the new size becomes the new size. Members beyond the
    minimum run when there are resources for them. Raises JobCommandError for impossible sizes.
    """
    sizes = _by_name(spec, replicas)
    groups = tuple(_group(spec, g, sizes[g.name]) if g.name in sizes else g for g in spec.groups)
    total = sum(group.replicas for group in groups)
    if total < 1:
        raise JobCommandError(
            f"job {spec.uid} must have at least 1 member: cancel the job to end it, or suspend it "
            "to resume it later"
        )
    if least is not None and not 0 <= least <= total:
        raise JobCommandError(
            f"job {spec.uid} of {total} members cannot need {least} of them to run"
        )
    if least is not None and len(groups) == 1:
        groups = (msgspec.structs.replace(groups[0], min_available=least),)
    if least is None:
        least = min(spec.min_available, total)
        if spec.min_available == sum(group.min_available for group in spec.groups):
            least = sum(group.min_available for group in groups)
    return msgspec.structs.replace(spec, groups=groups, min_available=least)


def _by_name(spec: JobSpec, replicas: Mapping[str, int]) -> dict[str, int]:
    names = [group.name for group in spec.groups]
    sizes = dict(replicas)
    if "" in sizes:
        if len(names) > 1:
            raise JobCommandError(
                f"job {spec.uid} has the groups {', '.join(names)}: name the group to resize"
            )
        sizes[names[0]] = sizes.pop("")
    unknown = [name for name in sizes if name not in names]
    if unknown:
        raise JobCommandError(
            f"job {spec.uid} has no group {unknown[0]!r}; it has {', '.join(names)}"
        )
    return sizes


def _group(spec: JobSpec, group: TaskGroup, replicas: int) -> TaskGroup:
    if not 0 <= replicas <= MAX_REPLICAS:
        raise JobCommandError(
            f"group {group.name} of job {spec.uid} has 0 to {MAX_REPLICAS:,} replicas, "
            f"not {replicas}"
        )
    if group.partition is not None and replicas != group.replicas:
        raise JobCommandError(
            f"group {group.name} of job {spec.uid} is cut into {group.partition.total} partitions "
            f"of {group.partition.size}: its size cannot be changed"
        )
    least = min(group.min_available, replicas)
    return msgspec.structs.replace(group, replicas=replicas, min_available=least)


def fit_members(job: JobRecord, spec: JobSpec) -> list[MemberRecord]:
    """Make `spec` the spec of the job, and change its members to the new numbers of replicas. New
    members wait. Surplus members that have ended are dropped. Surplus members that are alive are
    returned, and the caller must end them.
    """
    job.spec = spec
    halted = job.state in (st.ABORTING, st.ABORTED)
    surplus: list[MemberRecord] = []
    for group in spec.groups:
        have = {m.index: m for m in job.groups[group.name]}
        for index in range(group.replicas):
            if index not in have:
                have[index] = MemberRecord(
                    group=group.name,
                    index=index,
                    state=st.ENDED if halted else st.WAITING,
                    attempt=job.retired.get(group.name, 0),
                )
        for member in have.values():
            member.retires = member.index >= group.replicas
            member.comes_back = not halted  # even if the member was about to be removed
        going = [m for m in have.values() if m.retires]
        last = max((m.attempt for m in going), default=0)
        job.retired[group.name] = max(last, job.retired.get(group.name, 0))
        live = [m for m in going if m.state in judging.LIVE]
        kept = [m for m in have.values() if not m.retires] + live
        job.replace_group(group.name, sorted(kept, key=lambda m: m.index))
        surplus += live
    return surplus
