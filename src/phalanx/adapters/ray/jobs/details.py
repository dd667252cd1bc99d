"""Ray's description of a job: `JobStatus`, `JobInfo`, `JobDetails` and the like."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from enum import Enum, StrEnum
from typing import Any


class JobStatus(StrEnum):
    """A job's status."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    STOPPED = "STOPPED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"

    def __str__(self) -> str:
        return self.value

    def is_terminal(self) -> bool:
        """Whether the status is final."""
        return self in (JobStatus.STOPPED, JobStatus.SUCCEEDED, JobStatus.FAILED)


class JobType(str, Enum):  # noqa: UP042  # as Ray's: str() of it has the class's name, too
    """The origin of a job: the job API, or a driver that a user runs."""

    SUBMISSION = "SUBMISSION"
    DRIVER = "DRIVER"


@dataclass(kw_only=True)
class DriverInfo:
    """The driver of a job."""

    id: str
    node_ip_address: str
    pid: str


@dataclass(kw_only=True)
class JobInfo:
    """A job. Times are in milliseconds since the epoch."""

    status: JobStatus
    entrypoint: str
    message: str | None = None
    """A sentence that explains the status."""
    error_type: str | None = None
    start_time: int | None = None
    """The time of submission."""
    end_time: int | None = None
    metadata: dict[str, str] | None = None
    runtime_env: dict[str, Any] | None = None
    driver_agent_http_address: str | None = None
    driver_node_id: str | None = None
    """The node on which the job's command runs."""
    driver_exit_code: int | None = None

    def __post_init__(self) -> None:
        self.status = JobStatus(self.status)


@dataclass(kw_only=True)
class JobDetails(JobInfo):
    """A job as the job API shows it."""

    type: JobType
    job_id: str | None = None
    """The id of the driver's job; always None, because Phalanx has no such id."""
    submission_id: str | None = None
    driver_info: DriverInfo | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.type = JobType(self.type)

    def dict(self) -> dict[str, Any]:
        """Return all fields, for JSON."""
        return asdict(self)


_FIELDS = frozenset(field.name for field in fields(JobDetails))


def read_details(given: Mapping[str, Any]) -> JobDetails:
    """Return the job that a server's JSON describes. Unknown fields, which a newer server may add,
    are ignored.
    """
    known = {name: value for name, value in given.items() if name in _FIELDS}
    if driver := known.get("driver_info"):
        known["driver_info"] = DriverInfo(**driver)
    return JobDetails(**known)
