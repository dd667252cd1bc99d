"""Translates Ray's request for a job into a job of Phalanx, and a job's row into Ray's
description.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from phalanx.adapters.ray.jobs.details import JobDetails, JobStatus, JobType
from phalanx.api.job import Job
from phalanx.api.job_config import JOB_CONFIG
from phalanx.manifests.names import qualified_fault
from phalanx.model.environments import (
    Environment,
    read_environment,
    reference,
    written_environment,
)
from phalanx.model.jobs import states as st
from phalanx.model.jobs.spec import JobSpec
from phalanx.model.rows.work import JobDescription, JobInfo, MemberInfo

SUBMISSION = "ray.io/job-submission"
"""The annotation of a job that was submitted by the job API: the request as JSON."""
PACKAGE = re.compile(r"gcs://([A-Za-z0-9_][A-Za-z0-9_.-]{0,200}\.zip)")
_LONGEST_ID = 54
"""The largest number of characters of an id. Names of members, such as ID-worker-0, must not be too
long.
"""
_STOP_WAIT_S = 3.0
"""Seconds between SIGTERM and SIGKILL, unless the job's variable RAY_JOB_STOP_WAIT_TIME_S sets
them.
"""
_HONOURED = ("config", "env_vars", "excludes", "py_modules", "working_dir", "uv", "pip", "conda")
_STATUS = {
    st.PENDING: JobStatus.PENDING,
    st.PREPARING: JobStatus.PENDING,
    st.RESTARTING: JobStatus.PENDING,
    st.COMPLETED: JobStatus.SUCCEEDED,
    st.FAILED: JobStatus.FAILED,
    st.TERMINATED: JobStatus.STOPPED,
    **dict.fromkeys(st.OUT_OF_TIME, JobStatus.FAILED),
    st.DEPENDENCY_FAILED: JobStatus.FAILED,
    st.ABORTED: JobStatus.STOPPED,
}
"""Ray's status by Phalanx's state. All other states count as running."""
_MESSAGES = {
    JobStatus.PENDING: "Job has not started yet.",
    JobStatus.RUNNING: "Job is currently running.",
    JobStatus.STOPPED: "Job was intentionally stopped.",
    JobStatus.SUCCEEDED: "Job finished successfully.",
    JobStatus.FAILED: "Job failed.",
}


@dataclass(kw_only=True)
class JobSubmitRequest:
    """A client's request for a job.

    Raises TypeError for a field of a type that Ray does not accept.
    """

    entrypoint: str
    submission_id: str | None = None
    job_id: str | None = None
    """Ray's old name for `submission_id`."""
    runtime_env: dict[str, Any] | None = None
    metadata: dict[str, str] | None = None
    entrypoint_num_cpus: float | None = None
    entrypoint_num_gpus: float | None = None
    entrypoint_memory: int | None = None
    entrypoint_resources: dict[str, float] | None = None
    entrypoint_label_selector: dict[str, str] | None = None

    def __post_init__(self) -> None:
        _check("entrypoint", self.entrypoint, "a string", str)
        for name in ("submission_id", "job_id"):
            _check(name, vars(self)[name], "a string if provided", str, is_needed=False)
        for name in ("entrypoint_num_cpus", "entrypoint_num_gpus"):
            _check(name, vars(self)[name], "a number", int, float, is_needed=False)
        _check("entrypoint_memory", self.entrypoint_memory, "an integer", int, is_needed=False)
        _check_dict("runtime_env", self.runtime_env, "anything", object)
        _check_dict("metadata", self.metadata, "strings", str)
        _check_dict("entrypoint_resources", self.entrypoint_resources, "numbers", int, float)
        _check_dict("entrypoint_label_selector", self.entrypoint_label_selector, "strings", str)


def _check(name: str, value: object, what: str, *types: type, is_needed: bool = True) -> None:
    if (is_needed or value is not None) and not isinstance(value, types):
        raise TypeError(f"{name} must be {what}, got {type(value)}")


def _check_dict(name: str, value: object, what: str, *types: type) -> None:
    if value is None:
        return
    if not isinstance(value, dict):
        raise TypeError(f"{name} must be a dict, got {type(value)}")
    for key, one in value.items():
        _check(f"{name} keys", key, "strings", str)
        _check(f"{name} values", one, what, *types)


def read_request(body: bytes) -> JobSubmitRequest:
    """Read a client's request. Raises ValueError and TypeError with Ray's texts."""
    given = json.loads(body)
    _check("the body", given, "a JSON object", dict)
    return JobSubmitRequest(**{name: value for name, value in given.items() if value is not None})


def job_name(submission_id: str) -> str:
    """Return the name of the job with this id. It is the id itself if the id is a valid name."""
    if len(submission_id) <= _LONGEST_ID and qualified_fault(submission_id) is None:
        return submission_id
    stem = re.sub(r"[^A-Za-z0-9]+", "-", submission_id)[:40].strip("-") or "job"
    return f"{stem}-{hashlib.sha256(submission_id.encode()).hexdigest()[:8]}"


def software_of(environment: Mapping[str, Any]) -> Environment | None:
    """Return the software of a request's runtime environment; None if it names none.

    Raises ValueError if the environment is wrong or names a file. Clients send the contents of
    files, so the server reads no file of its own machine.
    """
    try:
        return read_environment(environment, _no_file)
    except (ValueError, TypeError) as error:
        raise ValueError(f"Failed to set up runtime environment: {error}") from None


def _no_file(path: str) -> str:
    raise ValueError(f"{path!r} is a path; send the content of the file.")


def packages_of(request: JobSubmitRequest) -> list[str]:
    """Return the uploaded packages that a job uses; the first is the package of its working
    directory.

    Raises ValueError for a part of the runtime environment that Phalanx does not support.
    """
    environment = request.runtime_env or {}
    unknown = sorted(set(environment).difference(_HONOURED))
    unknown = [name for name in unknown if environment[name] and not name.startswith("_")]
    if unknown:
        raise ValueError(
            f"Failed to set up runtime environment: Phalanx does not honour "
            f"runtime_env[{', '.join(map(repr, unknown))}]; it honours {', '.join(_HONOURED)}."
        )
    software_of(environment)
    modules = environment.get("py_modules") or []
    _check("py_modules", modules, "a list", list)
    _check_dict("env_vars", environment.get("env_vars"), "strings", str)
    found = [environment["working_dir"]] if environment.get("working_dir") else []
    for uri in [*found, *modules]:
        if not PACKAGE.fullmatch(str(uri)):
            raise ValueError(
                f"Failed to set up runtime environment: {uri!r} is not an uploaded package "
                "(gcs://NAME.zip). Only .zip files supported for remote URIs, and only those that "
                "a client uploads."
            )
    return [*found, *modules]


@dataclass(frozen=True, kw_only=True)
class Place:
    """The server's machine, and the environment of commands on it."""

    hostname: str
    """The machine's name. Nodes on the machine have it as the label kubernetes.io/hostname."""
    directory: str
    """The directory in which a job without a working directory runs."""
    variables: Mapping[str, str]
    """The environment variables: PATH and PYTHONPATH, with which commands find Ray's names, and the
    address of the cluster.
    """


def job_spec(request: JobSubmitRequest, place: Place, unpacked: Mapping[str, str]) -> JobSpec:
    """Return the job for a request: one command, which is never retried. It holds only the CPUs
    that it requests.

    As in Ray, a job that needs a package, or that requests neither resources nor labels, runs on
    the server's machine. Any other job runs on a node that fits. `unpacked` has the directory of
    each package. Raises ValueError and TypeError.
    """
    assert request.submission_id is not None
    environment = dict(request.runtime_env or {})
    software = software_of(environment)
    directory = unpacked.get(environment.get("working_dir") or "")
    variables = _variables(request, place, unpacked)
    spec = Job(
        request.entrypoint,
        name=job_name(request.submission_id),
        num_cpus=request.entrypoint_num_cpus or 0,
        num_gpus=request.entrypoint_num_gpus or 0,
        memory=request.entrypoint_memory,
        resources=request.entrypoint_resources,
        env=variables,
        working_dir=directory or place.directory,
        runtime_env=None if software is None else written_environment(software),
        grace_s=float(variables.get("RAY_JOB_STOP_WAIT_TIME_S", _STOP_WAIT_S)),
    ).spec()
    labels = _labels(request.entrypoint_label_selector or {})
    amounts = (request.entrypoint_num_cpus, request.entrypoint_num_gpus, request.entrypoint_memory)
    if unpacked or not (any(amounts) or request.entrypoint_resources or labels):
        labels["kubernetes.io/hostname"] = place.hostname
    (group,) = spec.groups
    template = msgspec.structs.replace(group.template, placement={"nodeSelector": labels})
    submission = {name: value for name, value in vars(request).items() if value is not None}
    return msgspec.structs.replace(
        spec,
        groups=(msgspec.structs.replace(group, template=template),),
        annotations=((SUBMISSION, json.dumps(submission)),),
    )


def _variables(
    request: JobSubmitRequest, place: Place, unpacked: Mapping[str, str]
) -> dict[str, str]:
    environment = request.runtime_env or {}
    given = {
        name: _filled(value, place.variables)
        for name, value in (environment.get("env_vars") or {}).items()
    }
    path = [given.get("PYTHONPATH", ""), *unpacked.values(), place.variables["PYTHONPATH"]]
    inherited = dict(environment)
    if (software := software_of(environment)) is not None:
        inherited |= reference(software)
    if "working_dir" in inherited:
        inherited["working_dir"] = unpacked[inherited["working_dir"]]
    if "py_modules" in inherited:
        inherited["py_modules"] = [unpacked[uri] for uri in inherited["py_modules"]]
    named = {"job_name": request.submission_id, "job_submission_id": request.submission_id}
    metadata = {**named, **(request.metadata or {})}
    return {
        **place.variables,
        **given,
        "PYTHONPATH": ":".join(filter(None, path)),
        JOB_CONFIG: json.dumps({"runtime_env": inherited, "metadata": metadata}),
    }


def _filled(value: str, variables: Mapping[str, str]) -> str:
    """Replace `${NAME}` by the node's variable of that name."""
    return re.sub(r"\$\{(\w+)\}", lambda found: variables.get(found[1], ""), value)


def _labels(selector: Mapping[str, str]) -> dict[str, str]:
    for label, value in selector.items():
        if not value or value[0] == "!" or "(" in value:
            raise ValueError(
                f"entrypoint_label_selector: {label}={value!r}: Phalanx supports only a plain "
                "value here."
            )
    return dict(selector)


def status_of(job: JobInfo) -> JobStatus:
    """Return Ray's status for the state of a job."""
    return _STATUS.get(job.state, JobStatus.RUNNING)


def details_of(job: JobInfo | JobDescription) -> JobDetails | None:
    """Return Ray's description of a job; None for a job that was not submitted by the job API."""
    text = job.annotations.get(SUBMISSION)
    if text is None:
        return None
    request = JobSubmitRequest(**json.loads(text))
    status = status_of(job)
    member = job.members[0] if isinstance(job, JobDescription) and job.members else None
    has_failed = status is JobStatus.FAILED
    return JobDetails(
        type=JobType.SUBMISSION,
        submission_id=request.submission_id,
        status=status,
        entrypoint=request.entrypoint,
        message=_message(job, request, status, member),
        error_type="JOB_ENTRYPOINT_COMMAND_ERROR" if has_failed else None,
        start_time=int(job.submitted * 1000),
        end_time=None if job.finished is None else int(job.finished * 1000),
        metadata=request.metadata or {},
        runtime_env=request.runtime_env or {},
        driver_node_id=(member.node or None) if member else None,
        driver_exit_code=member.exit_code if member else None,
    )


def _message(
    job: JobInfo, request: JobSubmitRequest, status: JobStatus, member: MemberInfo | None
) -> str:
    text = _MESSAGES[status]
    if status is JobStatus.PENDING:
        amounts = (request.entrypoint_num_cpus, request.entrypoint_num_gpus)
        if any(amounts) or request.entrypoint_memory or request.entrypoint_resources:
            text += (
                " It may be waiting for resources (CPUs, GPUs, memory, custom resources) to "
                "become available."
            )
        return f"{text} {job.reason}" if job.reason else text
    if status is JobStatus.FAILED and member is not None and member.exit_code is not None:
        return f"Job entrypoint command failed with exit code {member.exit_code}"
    return text
