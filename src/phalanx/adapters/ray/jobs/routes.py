"""Ray's job API: a method for each route, which answers from the cluster's jobs."""

from __future__ import annotations

import codecs
import json
import re
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar
from urllib.parse import unquote

from phalanx.adapters.ray.alias import RAY_COMMIT, RAY_VERSION
from phalanx.adapters.ray.jobs.details import JobDetails, JobStatus
from phalanx.adapters.ray.jobs.files import Body, Packages
from phalanx.adapters.ray.jobs.translation import (
    PACKAGE,
    JobSubmitRequest,
    Place,
    details_of,
    job_name,
    job_spec,
    packages_of,
    read_request,
)
from phalanx.api.jobs import SETTLED, read_log
from phalanx.api.new_manifests import job_manifest, new_request
from phalanx.errors import JobCommandError, JobNotFoundError, PhalanxError
from phalanx.model.rows.work import JobDescription
from phalanx.protocol.requests.jobs import CommandJob, DeleteJob, GetJob, ListJobs
from phalanx.protocol.requests.request import Request

R = TypeVar("R")
API_VERSION = "4"
"""The version of the job API, as Ray numbers it."""
BODY_BYTES = 1 << 20
"""The largest size of a request's body in bytes, unless the body is a package."""
PACKAGE_BYTES = 512 << 20
_LAST_CHARS = 20_000
"""The number of characters at the end of a failed job's log that the job's message includes."""
_ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz123456789"


class AskHead(Protocol):
    """The function that sends a request to the cluster's head."""

    def __call__(self, request: Request[R], /) -> R: ...


@dataclass(frozen=True)
class Answer:
    """The whole answer to a request: JSON, or the text of an error."""

    status: int
    body: Any = None

    def encoded(self) -> tuple[str, bytes]:
        """Return (content type, bytes)."""
        if isinstance(self.body, str):
            return "text/plain; charset=utf-8", self.body.encode()
        if self.body is None:
            return "application/octet-stream", b""
        return "application/json; charset=utf-8", json.dumps(self.body).encode()


class JobRoutes:
    """The methods for the routes of the job API. The argument `body` of a method is the stream with
    the request's body.
    """

    def __init__(self, ask: AskHead, place: Place, packages: Packages) -> None:
        self._ask = ask
        self._place = place
        self._packages = packages
        self._routes: list[tuple[str, re.Pattern[str], Callable[..., Answer]]] = [
            ("GET", re.compile("/api/version"), self._version),
            ("GET", re.compile("/api/packages/([^/]+)/([^/]+)"), self._find_package),
            ("PUT", re.compile("/api/packages/([^/]+)/([^/]+)"), self._put_package),
            ("POST", re.compile("/api/jobs/?"), self._submit),
            ("GET", re.compile("/api/jobs/?"), self._list),
            ("GET", re.compile("/api/jobs/([^/]+)"), self._info),
            ("DELETE", re.compile("/api/jobs/([^/]+)"), self._delete),
            ("POST", re.compile("/api/jobs/([^/]+)/stop"), self._stop),
            ("GET", re.compile("/api/jobs/([^/]+)/logs"), self._logs),
        ]

    def answer(self, method: str, path: str, body: Body, size: int) -> Answer:
        """Return the answer to a request whose body has `size` bytes."""
        matching = [(m, p.fullmatch(path), f) for m, p, f in self._routes]
        found = [(m, match, f) for m, match, f in matching if match]
        if not found:
            return Answer(404, "404: Not Found")
        for wanted, match, function in found:
            if wanted == method:
                parts = [unquote(part) for part in match.groups()]
                try:
                    return function(*parts, body=body, size=size)
                except JobNotFoundError:
                    return Answer(404, f"Job {parts[0]} does not exist")
                except (TypeError, ValueError, RecursionError) as error:
                    return Answer(400, f"{type(error).__name__}: {error}")
                except (PhalanxError, OSError) as error:
                    return Answer(500, f"{type(error).__name__}: {error}")
        return Answer(405, "405: Method Not Allowed")

    def _version(self, **_: Any) -> Answer:
        return Answer(
            200,
            {
                "version": API_VERSION,
                "ray_version": RAY_VERSION,
                "ray_commit": RAY_COMMIT,
                "session_name": self._place.variables["PHALANX_ADDRESS"],
            },
        )

    # ---- packages ----------------------------------------------------------------------------

    def _find_package(self, protocol: str, name: str, **_: Any) -> Answer:
        uri = f"{protocol}://{name}"
        if not PACKAGE.fullmatch(uri) or self._packages.path(uri) is None:
            return Answer(404, f"Package {uri} does not exist")
        return Answer(200)

    def _put_package(self, protocol: str, name: str, *, body: Body, size: int) -> Answer:
        uri = f"{protocol}://{name}"
        if not PACKAGE.fullmatch(uri):
            raise ValueError(
                f"{uri} is not a package. Only .zip files supported, as gcs://NAME.zip"
            )
        if size > PACKAGE_BYTES:
            return Answer(413, f"Package {uri} has {size} bytes; the limit is {PACKAGE_BYTES}")
        if self._packages.path(uri) is None:
            self._packages.put(uri, body, size)
        return Answer(200)

    # ---- jobs --------------------------------------------------------------------------------

    def _submit(self, *, body: Body, size: int) -> Answer:
        if size > BODY_BYTES:
            return Answer(413, f"The request has {size} bytes; the limit is {BODY_BYTES}")
        request = read_request(body.read(size))
        request.submission_id = request.submission_id or request.job_id or _new_id()
        spec = job_spec(request, self._place, self._unpacked(request))
        try:
            self._ask(new_request([job_manifest(spec)]))
        except JobCommandError:
            if self._is_there(spec.uid):
                raise ValueError(
                    f"Job with submission_id {request.submission_id} already exists. Please use a "
                    "different submission_id."
                ) from None
            raise
        given = request.submission_id
        return Answer(200, {"job_id": given, "submission_id": given})

    def _unpacked(self, request: JobSubmitRequest) -> dict[str, str]:
        found = {uri: self._packages.path(uri) for uri in packages_of(request)}
        for uri, path in found.items():
            if path is None:
                raise ValueError(
                    f"Failed to set up runtime environment: package {uri} was not uploaded here."
                )
        return {uri: path for uri, path in found.items() if path is not None}

    def _is_there(self, uid: str) -> bool:
        try:
            self._ask(GetJob(uid))
        except JobNotFoundError:
            return False
        return True

    def _list(self, **_: Any) -> Answer:
        rows = [details_of(row) for row in self._ask(ListJobs())]
        return Answer(200, [row.dict() for row in rows if row is not None])

    def _info(self, job: str, **_: Any) -> Answer:
        row, details = self._job(job)
        if details.status is JobStatus.FAILED and (log := self._log(row)):
            details.message = (
                f"{details.message}, last available logs (truncated to {_LAST_CHARS:,} chars):\n"
                f"{log[-_LAST_CHARS:]}"
            )
        return Answer(200, details.dict())

    def _delete(self, job: str, **_: Any) -> Answer:
        row, details = self._job(job)
        if not details.status.is_terminal():
            return Answer(
                500,
                f"RuntimeError: Attempted to delete job '{job}', but it is in a non-terminal state "
                f"{details.status}.",
            )
        self._ask(DeleteJob(_uid(row)))
        return Answer(200, {"deleted": True})

    def _stop(self, job: str, **_: Any) -> Answer:
        row, details = self._job(job)
        if details.status.is_terminal():
            return Answer(200, {"stopped": False})
        try:
            self._ask(CommandJob(_uid(row), "cancel"))
        except JobCommandError:  # the job has ended since, or is ending
            return Answer(200, {"stopped": False})
        return Answer(200, {"stopped": True})

    def _logs(self, job: str, **_: Any) -> Answer:
        row, _details = self._job(job)
        return Answer(200, {"logs": self._log(row)})

    def tail(self, job: str) -> Iterator[str | None]:
        """Yield a job's output as it is printed, until the job is over. Yields None when there is
        no new output.

        Raises JobNotFoundError.
        """
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        start, offset = 0, 0
        while True:
            row, _details = self._job(job)
            is_over = row.state in SETTLED
            starts = len(row.members[0].logs)
            while start < starts:
                name = row.members[0].name
                for data, end in read_log(self._ask, _uid(row), name, start, offset):
                    offset = end
                    yield decoder.decode(data)
                if start == starts - 1:
                    break
                start, offset = start + 1, 0
            if is_over:
                return
            yield None

    def _job(self, submission_id: str) -> tuple[JobDescription, JobDetails]:
        """Return the job that was submitted under this id. Raises JobNotFoundError."""
        row = self._ask(GetJob(f"default/{job_name(submission_id)}"))
        details = details_of(row)
        if details is None or details.submission_id != submission_id:
            raise JobNotFoundError(f"no job was submitted as {submission_id!r}")
        return row, details

    def _log(self, row: JobDescription) -> str:
        """Return the output of the job's last attempt; "" if no attempt has begun."""
        (member,) = row.members
        if not member.logs:
            return ""
        parts = read_log(self._ask, _uid(row), member.name, len(member.logs) - 1)
        return b"".join(data for data, _ in parts).decode("utf-8", "replace")


def _uid(row: JobDescription) -> str:
    return f"{row.namespace}/{row.name}"


def _new_id() -> str:
    return "raysubmit_" + "".join(secrets.choice(_ALPHABET) for _ in range(16))
