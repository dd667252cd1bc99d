"""Slurm's one-word reasons why a job waits or has ended."""

from __future__ import annotations

import re

from phalanx.adapters.slurm.states import OUT_OF_MEMORY
from phalanx.model.jobs import states as st
from phalanx.model.rows.work import JobInfo

_WORD = re.compile(r"[A-Za-z_]+")
_ENDED = {
    st.TIMED_OUT: "TimeLimit",
    st.DEADLINE: "DeadLine",
    st.DEPENDENCY_FAILED: "DependencyNeverSatisfied",
    OUT_OF_MEMORY: "OutOfMemory",
}
_OF_CODES = {
    **dict.fromkeys(("queue-quota", "queue-capability", "namespace-quota"), "QOSResourceLimit"),
    "user-limit": "AssociationResourceLimit",
    "user-jobs": "AssociationJobLimit",
    **dict.fromkeys(("labels", "gpu-type", "taints"), "BadConstraints"),
    **dict.fromkeys(("never-fits", "never-fits-there", "gang-never-fits"), "BadConstraints"),
    **dict.fromkeys(("unschedulable", "devices-closed", "reserved-time"), "ReqNodeNotAvail"),
    "queue-closed": "PartitionDown",
    "behind": "Priority",
}
"""Slurm's words for the scheduler's reasons (`scheduler.cycle.explain.REASONS`)."""
NEVER_KNOWN = "None"
_USUAL = "default/"
"""The namespace of jobs that Slurm's commands submit."""


def waiting_reason(job: JobInfo, now: float, code: str = "") -> str:
    """Return the reason why a job waits as a single word, for programs. `phalanx explain` has full
    sentences. `code`: the code of the first reason that the scheduler gives; "" if it gives none.
    """
    if job.is_held:
        return "JobHeldUser"
    if _WORD.fullmatch(job.reason):
        return job.reason  # the reason is one of Slurm's words already
    if job.after and job.reason.startswith("it waits "):
        return "Dependency"
    if job.begins is not None and job.begins > now:
        return "BeginTime"
    if job.reservation and "reservation" in job.reason:
        return "Reservation"
    if job.licenses and "licen" in job.reason:
        return "Licenses"
    if code in _OF_CODES:
        return _OF_CODES[code]
    return "Priority" if job.position is not None and job.position > 1 else "Resources"


def ended_reason(state: str, by_signal: bool) -> str:
    """Return the reason why a job has ended. `by_signal`: whether a signal ended the job's first
    failed member.
    """
    if state == st.FAILED:
        return "JobLaunchFailure" if by_signal else "NonZeroExitCode"
    return _ENDED.get(state, NEVER_KNOWN)


def dependency_text(job: JobInfo, reason: str) -> str:
    """Return the unmet dependencies of a job in the form of squeue's %E: `afterok:7(unfulfilled)`.

    Returns "" if the job waits for another reason.
    """
    if reason != "Dependency":
        return ""
    separator = "?" if "?" in job.after else ","
    found = []
    for need in job.after.split(separator):
        kind, *jobs = need.split(":")
        if kind == "singleton" or not jobs:
            found.append(f"{kind}(unfulfilled)")
        else:
            found += [f"{kind}:{one.removeprefix(_USUAL)}(unfulfilled)" for one in jobs]
    return separator.join(found)
