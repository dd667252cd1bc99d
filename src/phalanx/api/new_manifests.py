"""Makes manifests for the head, from jobs and from files. Each job in them gets the umask of this
process, which applies to the files that the job writes.

A command that submits imports this module and not `jobs`, which imports the engines of programs.
"""

from __future__ import annotations

import os

import msgspec

from phalanx.model.jobs.spec import CronSpec, JobSpec
from phalanx.model.raw_bytes import encoded
from phalanx.protocol.requests.jobs import ApplyManifests, Manifest
from phalanx.runtime.os.accounts import current_umask

APPLIED = (
    "Job",
    "JobTemplate",
    "JobFlow",
    "CronJob",
    "Queue",
    "PriorityClass",
    "HyperNode",
    "Reservation",
)
"""The kinds of manifests that a cluster accepts."""


def new_request(manifests: list[Manifest]) -> ApplyManifests:
    """Return a request to apply these manifests. It may be sent again if the head did not
    answer.
    """
    return ApplyManifests(manifests, os.urandom(12))


def job_manifest(job: JobSpec) -> Manifest:
    """Return a job's manifest for the head, with the umask of this process."""
    return Manifest("Job", encoded(msgspec.msgpack.encode, _with_umask(job)))


def manifest_objects(text: str | bytes, file: str = "") -> tuple[list[Manifest], list[str]]:
    """Return the objects of a file for the head, with queues and templates first, and the warnings
    about them.

    Raises ManifestError that lists all faults.
    """
    from phalanx.manifests.check import others_first, read_for_submit
    from phalanx.manifests.findings import Finding, ManifestError

    manifests, found = read_for_submit(text, file)
    said = [str(finding) for finding in found]
    for manifest in manifests:
        if manifest.kind not in APPLIED:
            said.append(f"{manifest.object}: ignored, as clusters do not keep this kind")
    chosen = [m for m in manifests if m.kind in APPLIED]
    if not chosen:
        reason = f"unsupported kind; supported: {', '.join(APPLIED)}"
        raise ManifestError(
            [Finding(path="kind", reason=reason, object=m.object) for m in manifests], file
        )
    ordered = sorted(others_first(chosen), key=lambda m: _ORDER.get(m.kind, len(_ORDER)))
    return [
        Manifest(m.kind, encoded(msgspec.msgpack.encode, _with_masks(m.spec))) for m in ordered
    ], said


def _with_masks(spec: object) -> object:
    """Return an object with this process's umask set in it, if it is a job or a cron job."""
    if isinstance(spec, CronSpec):
        return msgspec.structs.replace(spec, job=_with_masks(spec.job))
    return _with_umask(spec) if isinstance(spec, JobSpec) else spec


def _with_umask(job: JobSpec) -> JobSpec:
    """Return a job with the umask of this process, unless the job has a umask already."""
    return job if job.umask >= 0 else msgspec.structs.replace(job, umask=current_umask())


_ORDER = {"PriorityClass": 0, "HyperNode": 0, "Queue": 1, "Reservation": 1, "JobTemplate": 2}
